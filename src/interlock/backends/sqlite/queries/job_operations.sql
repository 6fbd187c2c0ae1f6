-- name: job_state
-- Read a job's state, lane and the session that has fetched it.
select state, kind, lane, position, session, attempts, options from interlock_job_with_state where id = :id and namespace = :namespace

-- name: ended_state
-- Read the state in which a job ended.
select h.state
from interlock_job_history h
join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace
where h.id = :id

-- name: request_cancel
-- Ask the worker of a job to cancel it.
update interlock_job_fetched set cancel = :why, notified = 1 where id = :id

-- name: fence_and_cancel
-- Select the fence of a fetched job, and why its worker was asked to cancel it.
select fence, cancel from interlock_job_fetched where id = :id

-- name: fetched_of_lane
-- Select the fetched jobs of a lane and their sessions.
select c.id, c.fence, w.session
from interlock_job_fetched c
join interlock_job_worker w on w.id = c.worker
where c.lane = :lane

-- name: mark_notified
-- Record that the workers of a lane's jobs were notified to stop.
update interlock_job_fetched set notified = 1 where lane = :lane

-- name: hold_lane
-- Hold a lane, with who and why.
insert into interlock_job_hold (lane, held_by, held_reason, held_since) values (:lane, :by, :reason, :now)
on conflict (lane) do update
set held_by = excluded.held_by, held_reason = excluded.held_reason, held_since = coalesce(held_since, excluded.held_since)

-- name: release_lane
-- Release a lane that is held or parked.
delete from interlock_job_hold where lane = :lane

-- name: make_due
-- Make a job due now, and neither parked nor unreadable.
update interlock_job set due_at = :now, parked = null, unreadable = 0, unreadable_by = null, expires_at = null
where id = :id

-- name: restore
-- Move a job from the history back to the unfinished jobs, with its attempts reset.
insert into interlock_job
    (id, kind, lane, priority, enqueued_at, due_at, fence, on_failure, coalesces, keep_result, limits, uses, attempts, options,
     arguments, hooks, cause)
select id, kind, lane, priority, enqueued_at, :now, fence, on_failure, coalesces, keep_result, limits, uses, attempts, options,
       arguments, hooks, cause
from interlock_job_history
where id = :id
returning kind, lane, options

-- name: queue_pauses
-- Read the paused queues.
select queue, paused_by, reason, paused_since from interlock_queue_pause where namespace = :namespace

-- name: queue_pause
-- Read the pause of a queue.
select paused_by, reason, paused_since from interlock_queue_pause where namespace = :namespace and queue = :queue

-- name: pause_queue
-- Pause a queue, with who and why.
insert into interlock_queue_pause (namespace, queue, paused_by, reason, paused_since)
values (:namespace, :queue, :by, :reason, :now)
on conflict (namespace, queue) do update set paused_by = excluded.paused_by, reason = excluded.reason

-- name: resume_queue
-- End the pause of a queue.
delete from interlock_queue_pause where namespace = :namespace and queue = :queue

-- name: fetched_of_queue
-- Select the fetched jobs of a queue and their sessions.
select c.id, c.fence, w.session
from interlock_job_fetched c
cross join interlock_job j on j.id = c.id
cross join interlock_job_kind k on k.id = j.kind
cross join interlock_job_worker w on w.id = c.worker
where k.namespace = :namespace and k.queue = :queue and not c.started

-- name: mark_jobs_notified
-- Record that the workers of these jobs were notified to return them.
update interlock_job_fetched set notified = 1 where id in (select value from json_each(:ids))
