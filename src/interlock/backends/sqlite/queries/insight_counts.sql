-- name: count_ready
-- Count ready jobs of a kind, unreadable ones among them, up to a bound.
select count(*) from (
    select 1 from interlock_job_ready where kind = :kind
    union all
    select 1 from interlock_job where unreadable and parked is null and kind = :kind
    limit :limit)

-- name: count_fetched
-- Count fetched jobs by kind: all, those that have started, those of dead sessions, and those that are not the first of
-- their lane.
select kind, count(*), sum(started), sum(orphan), sum(follows)
from (
    select j.kind, c.started, s.id is null as orphan,
           c.lane is not null and exists (
               select 1 from interlock_job f where f.lane = c.lane and f.position > 0 and f.position < j.position) as follows
    from interlock_job_fetched c
    cross join interlock_job j on j.id = c.id
    left join interlock_job_worker w on w.id = c.worker
    left join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now_s
    limit :limit)
group by kind

-- name: count_scheduled
-- Count scheduled jobs of a kind, up to a bound.
select count(*) from (select 1 from interlock_job_scheduled where kind = :kind limit :limit)

-- name: count_waiting
-- Count jobs that wait for a limit, by kind, up to a bound.
select kind, count(*) from (select kind from interlock_job_limit_wait where namespace = :namespace and not woken limit :limit) group by kind

-- name: count_blocked
-- Count jobs that wait for others, by kind, up to a bound.
select j.kind, count(*)
from (select distinct id from interlock_job_after limit :limit) a
cross join interlock_job j on j.id = a.id and j.parked is null
group by j.kind

-- name: count_held
-- Count the first jobs of held lanes by kind.
select s.kind, count(*)
from (select lane from interlock_job_hold where lane > :first and lane < :beyond limit :scan) h
cross join interlock_job_with_state s on s.id = (
    select f.id from interlock_job f where f.lane = h.lane and f.position > 0 order by f.position limit 1)
where s.state = 'held'
group by s.kind

-- name: count_parked
-- Count parked jobs by kind, and those that are not the first of their lane.
select kind, count(*), sum(follows)
from (
    select j.kind, j.lane is not null and exists (
               select 1 from interlock_job f where f.lane = j.lane and f.position > 0 and f.position < j.position) as follows
    from interlock_job j where j.parked is not null limit :limit)
group by kind

-- name: count_holds
-- Count lanes that are held and lanes that are parked, up to a bound.
select count(held_since), count(parked_since)
from (select held_since, parked_since from interlock_job_hold where lane > :first and lane < :beyond limit :limit)

-- name: count_fetched_lanes
-- Count lanes of which a job has started, and lanes of which jobs are fetched and none has started, up to a bound.
select coalesce(sum(started), 0), coalesce(sum(not started), 0)
from (
    select max(started) as started
    from (select lane, started from interlock_job_fetched where lane > :first and lane < :beyond limit :limit)
    group by lane)

-- name: count_done
-- Count done jobs of a kind, up to a bound.
select count(*) from (
    select 1 from interlock_job_history indexed by interlock_job_history_by_end
    where kind = :kind and state = 'done' limit :limit)

-- name: count_ended
-- Count jobs that ended in one state other than done, up to a bound.
select count(*) from (
    select 1 from interlock_job_history where state = :state and state <> 'done'
      and (:all or kind in (select value from json_each(:kinds))) limit :limit)

-- name: jobs_in_lanes
-- Select jobs with a position, by lane and in order.
select kind, lane from interlock_job
where lane > :first and lane < :beyond and position > 0
order by lane, position
limit :limit

-- name: ended_counts
-- Count jobs that ended since a time, by when they ended and when they were enqueued. The index covers it.
select finished_at / :width, enqueued_at / :width, sum(state = 'done'), sum(state in ('failed', 'quarantined')), count(*)
from interlock_job_history indexed by interlock_job_history_by_end
where kind = :kind and finished_at >= :since
group by 1, 2

-- name: enqueued_counts
-- Count the newest unfinished jobs by when they were enqueued.
select enqueued_at / :width, count(*), min(id), sum(kind in (select value from json_each(:kinds)))
from (select id, kind, enqueued_at from interlock_job where id < :before order by id desc limit :scan)
group by 1

-- name: oldest_ready
-- Find when the oldest of the next hundred jobs to be fetched became ready.
select min(sort + priority * 600000000)
from (select sort, priority from interlock_job_ready where kind = :kind and class = :fetch_class order by sort limit 100)

-- name: next_due
-- Find when the next scheduled job of a kind is due.
select min(at) from interlock_job_scheduled where kind = :kind
