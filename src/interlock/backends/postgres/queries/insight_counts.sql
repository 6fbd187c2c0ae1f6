-- name: now
-- Read the clock, and whether there are other namespaces.
select interlock.micros(interlock.now_or($2)), exists (select from interlock.job_namespace n where n.namespace <> $1)

-- name: counts
-- Count unfinished jobs by queue and state, each up to a bound. Of jobs in lanes a bounded number is read, by lane:
-- jobs behind the first one of their lane are behind, and a first one that no fetch has seen yet is ready.
with recursive clock as materialized (select interlock.now_or($3) as now_is),
ready_pools (pool) as (
    (select r.pool from interlock.job_ready r where r.pool >= $1 || '/' and r.pool < $1 || '0' order by r.pool limit 1)
    union all
    select (select r.pool from interlock.job_ready r where r.pool > p.pool and r.pool < $1 || '0' order by r.pool limit 1)
    from ready_pools p where p.pool is not null
),
later_pools (pool) as (
    (select l.pool from interlock.job_scheduled l where l.pool >= $1 || '/' and l.pool < $1 || '0' order by l.pool limit 1)
    union all
    select (select l.pool from interlock.job_scheduled l where l.pool > p.pool and l.pool < $1 || '0' order by l.pool limit 1)
    from later_pools p where p.pool is not null
),
fetched as materialized (
    select o.id, c.session, o.id in (select s.id from interlock.job_started_ids($1) s) as started
    from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id)
    where c.namespace = $1 limit $2::integer
),
laned as materialized (
    select x.id, x.pool, x.name, x.lane, x.due_at, x.apart, x.lane is distinct from lag(x.lane) over (order by x.lane, x.position) as first
    from (
        select j.id, j.pool, j.name, j.lane, j.position, j.due_at, j.apart from interlock.job j
        where j.lane >= $1 || '/' and j.lane < $1 || '0' and j.position is not null
        order by j.lane, j.position limit $2::integer
    ) x
),
fresh as materialized (
    select l.pool, l.name, l.due_at from laned l
    left join interlock.job_lane k on k.lane = l.lane
    where l.first and not l.apart and k.held_since is null and k.parked_since is null
      and not exists (select from interlock.job_ready r where r.lane = l.lane)
      and not exists (select from fetched r where r.id = l.id)
),
held as materialized (
    select h.pool
    from (select l.lane from interlock.job_lane l
          where (l.held_since is not null or l.parked_since is not null) and l.lane >= $1 || '/' and l.lane < $1 || '0'
          limit 1000) l
    cross join lateral (
        select j.id, j.pool, j.apart from interlock.job j
        where j.lane = l.lane and j.position is not null order by j.position limit 1) h
    where not h.apart and not exists (select from fetched r where r.id = h.id)
),
ready as materialized (
    select p.pool, n.count, n.names, o.due_at
    from ready_pools p
    cross join lateral (
        select count(*) as count, array_agg(distinct x.name) as names
        from (select r.name from interlock.job_ready r where r.pool = p.pool limit $2::integer) x) n
    cross join lateral (
        select min(j.due_at) as due_at
        from (
            select r.id from (values (0::smallint), (1::smallint), (2::smallint)) k (class)
            cross join lateral (
                select y.id from interlock.job_ready y
                where y.pool = p.pool and y.class = k.class order by y.sort, y.id limit 100) r
        ) f
        join interlock.job j on j.id = f.id) o
    where p.pool is not null
)
select 'ready', r.pool, r.count::bigint, r.due_at, r.names from ready r
union all
select 'ready', f.pool, count(*), min(f.due_at), array_agg(distinct f.name) from fresh f group by f.pool
union all
select 'ready', u.pool, count(*), null, array_agg(distinct u.name)
from (
    select j.pool, j.name from interlock.job j
    where j.unreadable and j.parked is null and j.pool >= $1 || '/' and j.pool < $1 || '0'
      and interlock.job_state(j, $1) = 'ready' limit $2::integer) u group by u.pool
union all
select 'scheduled', p.pool, (
    select count(*) from (select from interlock.job_scheduled l where l.pool = p.pool limit $2::integer) x),
    (select l.at from interlock.job_scheduled l where l.pool = p.pool order by l.at limit 1), null
from later_pools p where p.pool is not null
union all
select 'waiting', w.pool, count(*), null, null
from (select x.pool from interlock.job_limit_wait x where x.namespace = $1 and not x.woken limit $2::integer) w group by w.pool
union all
select 'blocked', b.pool, count(*), null, null
from (
    select j.pool from (select distinct a.id from interlock.job_after a limit $2::integer) a
    join interlock.job j on j.id = a.id
    where j.parked is null and j.pool >= $1 || '/' and j.pool < $1 || '0') b group by b.pool
union all
select case when r.started then 'running' else 'fetched' end, j.pool, count(*), null, null
from fetched r join interlock.job j on j.id = r.id group by r.started, j.pool
union all
select 'orphans', '', count(*), null, null from fetched r cross join clock
where not exists (
    select from interlock.session s where s.namespace = $1 and s.id = r.session and s.expires_at > now_is)
union all
select 'parked', p.pool, count(*), null, null
from (
    select j.pool from interlock.job j
    where j.parked is not null and j.pool >= $1 || '/' and j.pool < $1 || '0' limit $2::integer) p group by p.pool
union all
select 'held', h.pool, count(*), null, null from held h group by h.pool
union all
select 'behind', l.pool, count(*), null, null
from laned l
where not l.first and not l.apart and not exists (select from fetched r where r.id = l.id) group by l.pool
union all
select u.what, '', u.count, null, null
from (
    select count(*) filter (where x.started) as running, count(*) filter (where not x.started) as fetched from (
        select bool_or(r.started) as started
        from fetched r join interlock.job j on j.id = r.id where j.lane is not null group by j.lane) x) c
cross join lateral (values ('lanes_running', c.running), ('lanes_fetched', c.fetched)) as u (what, count)
union all
select u.what, '', u.count, null, null
from (
    select count(x.held_since) as held, count(x.parked_since) as parked from (
        select l.held_since, l.parked_since from interlock.job_lane l
        where (l.held_since is not null or l.parked_since is not null) and l.lane >= $1 || '/' and l.lane < $1 || '0'
        limit $2::integer) x) c
cross join lateral (values ('lanes_held', c.held), ('lanes_parked', c.parked)) as u (what, count)
union all
select 'workers', $1 || '/' || q.queue, count(*),
       sum(coalesce((w.queue_runners ->> q.queue)::integer, w.runners))::bigint, null
from clock
join interlock.job_worker w on w.namespace = $1
join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > now_is
cross join lateral unnest(w.queues) as q (queue)
group by q.queue

-- name: count_ended
-- Count kept jobs that have ended, by state, each up to a bound.
select 0::smallint, count(*) from (
    select from interlock.job_history h
    where h.state = 0 and h.pool >= $1 || '/' and h.pool < $1 || '0' limit $2::integer) x
union all
select s.state, x.count
from (values (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint), (6::smallint)) s (state)
cross join lateral (
    select count(*) as count from (
        select from interlock.job_history h
        where h.state = s.state and h.state <> 0 and h.pool >= $1 || '/' and h.pool < $1 || '0' limit $2::integer) y) x

-- name: count_ended_here
-- Count the same if there is only one namespace, from the index.
select 0::smallint, count(*) from (select from interlock.job_history h where h.state = 0 limit $1::integer) x
union all
select s.state, x.count
from (values (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint), (6::smallint)) s (state)
cross join lateral (
    select count(*) as count from (
        select from interlock.job_history h where h.state = s.state and h.state <> 0 limit $1::integer) y) x

-- name: activity_accepted
-- Count unfinished jobs by the time span in which they were accepted: all, the smallest ID, and those of the
-- namespace.
select x.enqueued_at / $2::bigint, count(*), min(x.id), count(*) filter (where x.pool >= $1 || '/' and x.pool < $1 || '0')
from (select j.id, j.pool, j.enqueued_at from interlock.job j where j.id < $3 order by j.id desc limit $4) x
group by 1

-- name: activity_ended
-- Count jobs that ended since a time, by the time spans in which they ended and were accepted.
select h.finished_at / $2::bigint, h.enqueued_at / $2::bigint, count(*) filter (where h.state = 0),
       count(*) filter (where h.state in (1, 5)), count(*)
from interlock.job_history h
where h.finished_at >= $3::bigint and h.pool >= $1 || '/' and h.pool < $1 || '0'
group by 1, 2

-- name: workers
-- List live workers.
with started as materialized (select s.id from interlock.job_started_ids($1) s)
select w.session, s.host, s.pid, s.program, w.queues, w.names, w.runners,
       coalesce(f.fetched, 0), coalesce(f.running, 0),
       extract(epoch from s.begun_at)::float8, extract(epoch from s.expires_at)::float8,
       extract(epoch from s.blocked_since)::float8, s.blocked_by, w.handler_versions::text,
       w.queue_runners::text
from interlock.job_worker w
join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > interlock.now_or($4)
left join lateral (
    select count(*) filter (where o.id not in (select t.id from started t)) as fetched,
           count(*) filter (where o.id in (select t.id from started t)) as running
    from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id)
    where c.session = w.session and c.namespace = $1
) f on true
where w.namespace = $1 and ($2::text is null or w.session = $2) and cardinality(w.queues) > 0
order by s.begun_at, w.session
limit $3
