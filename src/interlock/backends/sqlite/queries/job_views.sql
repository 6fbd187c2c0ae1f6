-- name: unfinished_views
-- Read unfinished jobs in full.
select id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, session, host, pid, program,
       fence, error, uses, arguments, options, attempts, cause
from interlock_job_with_state
where id in (select value from json_each(:ids)) and namespace = :namespace

-- name: history_views
-- Read ended jobs in full, with results that are still kept.
select h.id, k.name, k.queue, h.lane, h.priority, h.state, h.attempt, h.crashes, h.enqueued_at, h.due_at, h.fetched_at,
       h.finished_at, h.ran, w.session, w.host, w.pid, w.program, h.fence, h.error, h.superseded_by, h.uses, h.arguments,
       h.options, h.attempts, r.result, h.result_until, coalesce(h.cause, '')
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace
left join interlock_job_worker w on w.id = h.worker
left join interlock_job_result r on r.id = h.id and r.kept_until > :now

-- name: first_of_lane
-- Read the first job of a lane.
select id from interlock_job where lane = :lane and position > 0 order by position limit 1

-- name: lane_jobs_ahead
-- Count the jobs before a position in a lane, up to a bound.
select count(*) from (
    select 1 from interlock_job where lane = :lane and position > 0 and position < :position limit :limit)

-- name: ready_jobs_ahead
-- Count the ready jobs of a queue that come before another, up to a bound.
select count(*) from (
    select 1
    from interlock_job_kind k
    cross join (values (0), (1), (2), (3)) classes
    cross join interlock_job_ready r on r.kind = k.id and r.class = classes.column1
    where k.namespace = :namespace and k.queue = :queue and (r.sort, r.id) < (:sort, :id)
    limit :limit)

-- name: lane_hold
-- Read who holds a lane and whether it is parked.
select held_by, held_reason, held_since, parked_reason, parked_since from interlock_job_hold where lane = :lane

-- name: limit_holders
-- Select the jobs that use a key.
select id from interlock_job_use where namespace = :namespace and key = :key order by id limit :limit

-- name: suspects
-- Select the suspects of one half, and how many there are.
select j.id, count(*) over () from interlock_job j where j.half = :half order by j.id limit :limit

-- name: running_suspects
-- Select the suspects that workers have, those of one group first.
select w.session, w.host, w.pid, w.program, j.half, json_group_array(j.id), count(*)
from interlock_job j
cross join interlock_job_fetched c on c.id = j.id
cross join interlock_job_worker w on w.id = c.worker and w.namespace = :namespace
where j.half is not null
group by w.id, j.half
order by j.half = :half desc, j.half / 2 = :half / 2 desc, w.session
limit :limit

-- name: live_workers
-- Select the sessions, queues, handlers and runners of live workers, and the runners by queue. A process that has only fetched
-- jobs serves no queue.
select w.session, w.queues, w.names, w.runners, w.queue_runners
from interlock_job_worker w
join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and s.expires_at > :now_s

-- name: lane_depth
-- Count the jobs of a lane, up to a bound.
select count(*) from (select 1 from interlock_job where lane = :lane and position > 0 limit :limit)
