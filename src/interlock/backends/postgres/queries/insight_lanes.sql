-- name: lanes
-- List the next lanes with jobs, by name. Each step finds the next one, however many jobs a lane has.
with recursive busy (lane, n) as (
    (select j.lane, 1 from interlock.job j
     where j.lane > $2 and j.lane < $1 || '0' and j.position is not null order by j.lane limit 1)
    union all
    select (select j.lane from interlock.job j
            where j.lane > b.lane and j.lane < $1 || '0' and j.position is not null order by j.lane limit 1), b.n + 1
    from busy b where b.lane is not null and b.n < $3
)
select b.lane from busy b where b.lane is not null

-- name: lane_views
-- Read lanes, their depths counted up to a bound.
with clock as materialized (select interlock.micros(interlock.now_or($4)) as now_us),
heads as materialized (
    select u.lane, j as job, j.id, j.name, j.due_at
    from unnest($2::text[]) as u (lane)
    cross join lateral (
        select x.* from interlock.job x where x.lane = u.lane and x.position is not null order by x.position limit 1) h
    join interlock.job j on j.id = h.id
),
fetched as materialized (
    select o.id, o.id in (select s.id from interlock.job_started_ids($1) s) as started, w.session, w.host, w.pid, w.program
    from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) join interlock.job_session w on w.id = c.session_id
    where c.namespace = $1 and c.runs is not null and o.id = any (array(select h.id from heads h))
)
select now_us, substr(u.lane, length($1) + 2),
       case when h.id is null then 'held' when c.started then 'running' when c.id is not null then 'fetched'
            else interlock.job_state(h.job, $1) end, h.id,
       coalesce(h.name, ''),
       (select count(*) from (
           select from interlock.job j where j.lane = u.lane and j.position is not null limit $3::integer) x),
       coalesce(l.held_since, l.parked_since, h.due_at), c.session, c.host, c.pid, c.program,
       coalesce(l.held_by, ''), coalesce(l.held_reason, ''), l.held_since, l.parked_since, coalesce(l.parked_reason, '')
from clock
cross join unnest($2::text[]) with ordinality as u (lane, n)
left join interlock.job_lane l on l.lane = u.lane
left join heads h on h.lane = u.lane
left join fetched c on c.id = h.id
where h.id is not null or l.held_since is not null or l.parked_since is not null
order by u.n

-- name: lane_jobs
-- List the first jobs of a lane.
select j.id from interlock.job j where j.lane = $1 || '/' || $2 and j.position is not null order by j.position limit $3

-- name: lane_unplaced
-- List jobs of a lane that are scheduled and have no position yet, among the next that are due.
select x.id
from (
    select l.id, l.at, l.lane from interlock.job_scheduled l
    where l.pool >= $1 || '/' and l.pool < $1 || '0' order by l.pool, l.at limit 10000) x
join interlock.job j on j.id = x.id and j.position is null
where x.lane = $1 || '/' || $2
order by x.at, x.id
limit $3

-- name: held_lanes
-- List lanes that are held or parked.
select l.lane, l.held_since is not null, l.parked_since is not null from interlock.job_lane l
where (l.held_since is not null or l.parked_since is not null) and l.lane > $2 and l.lane < $1 || '0'
order by l.lane limit $3

-- name: fetched_lanes
-- List lanes of which jobs are fetched: those of which one has started, or the others.
select j.lane
from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) join interlock.job j on j.id = o.id
where c.namespace = $1 and c.runs is not null and j.lane > $2 and j.lane < $1 || '0'
group by j.lane
having bool_or(o.id in (select s.id from interlock.job_started_ids($1) s)) = $4
order by j.lane limit $3
