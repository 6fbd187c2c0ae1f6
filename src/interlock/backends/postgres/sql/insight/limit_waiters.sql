-- The first in a key's line. Of each queue the line is a range of its own.
with recursive pools (pool) as (
    (select w.pool from interlock.job_wait w where w.key = $2 and w.namespace = $1 order by w.pool limit 1)
    union all
    select (select w.pool from interlock.job_wait w
            where w.key = $2 and w.namespace = $1 and w.pool > p.pool order by w.pool limit 1)
    from pools p where p.pool is not null
)
select j.id, j.name, j.due_at, null::bigint, null::text, null::text, null::integer, null::text
from (
    select f.id, f.ticket
    from pools p
    cross join lateral (
        select w.id, w.ticket from interlock.job_wait w
        where w.key = $2 and w.namespace = $1 and w.pool = p.pool and not w.woken order by w.ticket limit $3) f
    order by f.ticket limit $3) w
join interlock.job j on j.id = w.id
order by w.ticket
