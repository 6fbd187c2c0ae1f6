-- name: next_lanes
-- List the next lanes with jobs, by name. Each step finds one lane, however many jobs it has.
with recursive busy (lane) as (
    select (select min(j.lane) from interlock_job j where j.lane > :after and j.lane < :beyond)
    union all
    select (select min(j.lane) from interlock_job j where j.lane > busy.lane and j.lane < :beyond)
    from busy
    where busy.lane is not null
)
select lane, exists (select 1 from interlock_job j where j.lane = busy.lane and j.position > 0)
from busy
where lane is not null
limit :scan

-- name: held_lanes
-- List lanes that are held or parked, by name.
select lane, held_since is not null, parked_since is not null from interlock_job_hold where lane > :after and lane < :beyond order by lane limit :scan

-- name: fetched_lanes
-- List lanes of which jobs are fetched, by name: those of which one has started, or the others.
select lane from interlock_job_fetched
where lane > :after and lane < :beyond
group by lane
having max(started) = :started
order by lane
limit :limit

-- name: lane_jobs
-- List the jobs of a lane in order.
select id from interlock_job where lane = :lane and position > 0 order by position limit :limit

-- name: lane_before
-- List the jobs before a position in a lane, nearest first.
select id from interlock_job where lane = :lane and position > 0 and position < :position order by position desc limit :limit

-- name: lane_behind
-- List the jobs after a position in a lane, nearest first.
select id from interlock_job where lane = :lane and position > :position order by position limit :limit

-- name: lane_without_position
-- List the jobs of a lane that have no position yet.
select id from interlock_job where lane = :lane and position is null order by id limit :limit
