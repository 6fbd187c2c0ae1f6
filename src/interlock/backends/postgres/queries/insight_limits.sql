-- name: limit
-- Read one limit that jobs are under.
select * from (
    select $2::text as key, l.max_count, l.per, f.max_count as first_most, f.per as first_per,
           greatest(0, coalesce(l.taken, 0) - coalesce((
               select sum(d.count) from interlock.job_slot_freed d where d.namespace = $1 and d.key = $2), 0)) as taken,
           (select count(*) from (
               select from interlock.job_limit_start s
               where s.namespace = $1 and s.key = $2 and s.counts_until > now_us limit 10000) x) as started,
           (select count(*) from (
               select from interlock.job_limit_wait w
               where w.key = $2 and w.namespace = $1 and not w.woken limit 10000) x) as waiting,
           l.wake_at, now_us
    from (select interlock.micros(interlock.now_or($3)) as now_us) clock
    left join interlock.job_limit l on l.namespace = $1 and l.key = $2
    left join lateral (
        select w.max_count, w.per from interlock.job_limit_wait w where w.key = $2 and w.namespace = $1 limit 1) f on true
) x
where x.taken > 0 or x.started > 0 or x.waiting > 0

-- name: limits
-- List limits that jobs hold, wait for or recently started under, by key.
with recursive clock as materialized (select interlock.micros(interlock.now_or($4)) as now_us),
waited (key, n) as (
    (select w.key, 1 from interlock.job_limit_wait w where w.namespace = $1 and w.key > $2 order by w.key limit 1)
    union all
    select (select w.key from interlock.job_limit_wait w where w.namespace = $1 and w.key > x.key order by w.key limit 1), x.n + 1
    from waited x where x.key is not null and x.n < $3
),
keys as materialized (
    select known.key from (
        (select l.key from interlock.job_limit l cross join clock
         where l.namespace = $1 and l.key > $2
           and (l.taken > 0 or exists (
               select from interlock.job_limit_start s
               where s.namespace = $1 and s.key = l.key and s.counts_until > now_us))
         order by l.key limit $3)
        union
        select x.key from waited x where x.key is not null
    ) known
)
select * from (
    select k.key, l.max_count, l.per, f.max_count as first_most, f.per as first_per,
           greatest(0, coalesce(l.taken, 0) - coalesce((
               select sum(d.count) from interlock.job_slot_freed d where d.namespace = $1 and d.key = k.key), 0)) as taken,
           (select count(*) from (
               select from interlock.job_limit_start s
               where s.namespace = $1 and s.key = k.key and s.counts_until > now_us limit 10000) x) as started,
           (select count(*) from (
               select from interlock.job_limit_wait w
               where w.key = k.key and w.namespace = $1 and not w.woken limit 10000) x) as waiting,
           l.wake_at, now_us
    from keys k
    cross join clock
    left join interlock.job_limit l on l.namespace = $1 and l.key = k.key
    left join lateral (
        select w.max_count, w.per from interlock.job_limit_wait w where w.key = k.key and w.namespace = $1 limit 1) f on true
) x
where x.taken > 0 or x.started > 0 or x.waiting > 0
order by x.key
limit $3

-- name: limit_holders
-- List jobs that hold a limit.
select j.id, j.name, c.fetched_at, null::bigint, w.session, w.host, w.pid, w.program
from interlock.job_fetched c
cross join lateral unnest(c.ids) as o (id)
join interlock.job j on j.id = o.id
join interlock.job_session w on w.id = c.session_id
cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u
where c.namespace = $1 and c.limited and u.key = $2 and u.per = 0
order by c.fetched_at, j.id
limit $3

-- name: limit_starts
-- List recent starts that count for a rate.
select s.id, coalesce(j.name, h.name, ''), s.at, s.counts_until, w.session, w.host, w.pid, w.program
from (
    select x.id, x.at, x.counts_until from interlock.job_limit_start x
    where x.namespace = $1 and x.key = $2 and x.counts_until > interlock.micros(interlock.now_or($4))
    order by x.at, x.id limit $3) s
left join interlock.job j on j.id = s.id
left join interlock.job_history h on h.id = s.id
left join lateral (
    select c.session_id from interlock.job_fetched c where c.namespace = $1 and c.limited and s.id = any (c.ids) limit 1) c on true
left join interlock.job_session w on w.id = coalesce(c.session_id, h.session_id)
order by s.at, s.id

-- name: limit_waiters
-- List the first jobs in a key's queue. The jobs of each pool and name are a range of the index.
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
