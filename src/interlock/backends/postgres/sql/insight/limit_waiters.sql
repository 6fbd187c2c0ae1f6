-- The first in a key's line. Of each name in each queue the line is a range of its own.
with recursive kinds (pool, name) as (
    (select w.pool, w.name from interlock.job_limit_wait w
     where w.key = $2 and w.namespace = $1 order by w.pool, w.name limit 1)
    union all
    select n.pool, n.name from kinds k
    cross join lateral (
        select w.pool, w.name from interlock.job_limit_wait w
        where w.key = $2 and w.namespace = $1 and (w.pool, w.name) > (k.pool, k.name)
        order by w.pool, w.name limit 1) n
)
select j.id, j.name, j.due_at, null::bigint, null::text, null::text, null::integer, null::text
from (
    select f.id, f.ticket
    from kinds k
    cross join lateral (
        select w.id, w.ticket from interlock.job_limit_wait w
        where w.key = $2 and w.namespace = $1 and w.pool = k.pool and w.name = k.name and not w.woken
        order by w.ticket limit $3) f
    order by f.ticket limit $3) w
join interlock.job j on j.id = w.id
order by w.ticket
