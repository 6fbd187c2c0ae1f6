-- name: fetched_jobs
-- Read a worker's fetched jobs by ID.
select c.id, c.fence, c.fetched_at, c.lane, c.uses, c.cancel, c.notified, c.hooked
from json_each(:ids) e
cross join interlock_job_fetched c on c.id = e.value
where c.worker = :worker

-- name: fetched_by_worker
-- Read a worker's jobs up to a fetch number, except those it names.
select c.id, c.fence, c.fetched_at, c.lane, c.uses, c.cancel, c.notified, c.hooked
from interlock_job_fetched c
where c.worker = :worker and c.fetch_number <= :fetch_number and c.id not in (select value from json_each(:but))

-- name: worker_of_session
-- Read a session's worker.
select id, host, pid, program from interlock_job_worker where namespace = :namespace and session = :session

-- name: refuse_fetches
-- Refuse a session's fetches up to a number from now on.
insert into interlock_job_worker (namespace, session, host, pid, program, refused_fetches)
select namespace, id, host, pid, program, :fetch_number
from interlock_session
where namespace = :namespace and id = :session
on conflict (namespace, session) do update set refused_fetches = max(refused_fetches, excluded.refused_fetches)

-- name: job_details
-- Read what acknowledging jobs needs of them.
select j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.half, j.on_failure, j.attempts, j.unreadable_by, j.sort
from json_each(:ids) e
cross join interlock_job j on j.id = e.value

-- name: last_fences
-- Read the last fences and attempts of jobs, unfinished or not.
select j.id, '', j.fence, j.attempts, exists (select 1 from interlock_job_fetched c where c.id = j.id)
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
cross join interlock_job_kind k on k.id = j.kind and k.namespace = :namespace
union all
select h.id, h.state, h.fence, h.attempts, 0
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
cross join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace

-- name: add_history
-- Move a job to the history.
insert into interlock_job_history
    (id, kind, state, lane, priority, enqueued_at, due_at, fetched_at, finished_at, ran, attempt, crashes, fence, worker,
     on_failure, coalesces, keep_result, limits, superseded_by, uses, error, attempts, options, arguments,
     hooks, cause)
select j.id, j.kind, :state, j.lane, j.priority, j.enqueued_at, j.due_at, c.fetched_at, :now, :ran,
       j.attempt + :attempts_more, j.crashes + :crashes_more, coalesce(c.fence, j.fence), c.worker, j.on_failure,
       j.coalesces, j.keep_result, j.limits, :superseded_by, j.uses, coalesce(:error, j.error),
       coalesce(:attempts, j.attempts), j.options, j.arguments, j.hooks, j.cause
from interlock_job j
left join interlock_job_fetched c on c.id = j.id
where j.id = :id

-- name: add_history_done
-- Move jobs that are done to the history, given as an object of IDs and run times.
insert into interlock_job_history
    (id, kind, state, lane, priority, enqueued_at, due_at, fetched_at, finished_at, ran, attempt, crashes, fence, worker,
     on_failure, coalesces, keep_result, limits, uses, error, attempts, options, arguments, hooks, cause)
select j.id, j.kind, 'done', j.lane, j.priority, j.enqueued_at, j.due_at, c.fetched_at, :now, e.value, j.attempt + 1,
       j.crashes, c.fence, c.worker, j.on_failure, j.coalesces, j.keep_result, j.limits, j.uses, null, j.attempts,
       j.options, j.arguments, j.hooks, j.cause
from json_each(:ran) e
cross join interlock_job_fetched c on c.id = cast(e.key as integer)
cross join interlock_job j on j.id = c.id

-- name: hooks_of_ended
-- Read ended jobs that have end hooks.
select h.id, k.name, k.queue, h.lane, h.state, coalesce(h.error, ''), h.attempt, h.superseded_by, h.arguments, h.hooks
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
cross join interlock_job_kind k on k.id = h.kind
where h.hooks is not null

-- name: delete_jobs
-- Delete unfinished jobs.
delete from interlock_job where id in (select value from json_each(:ids))

-- name: delete_fetched
-- Delete the record that jobs are fetched.
delete from interlock_job_fetched where id in (select value from json_each(:ids))

-- name: update_job
-- Update a job that ended its attempt but not itself: it is retried, crashed, was interrupted or is unreadable.
update interlock_job
set attempt = :attempt, crashes = :crashes, half = :half, fence = :fence, due_at = coalesce(:due_at, due_at), position = :position,
    parked = :parked, unreadable = :unreadable, unreadable_by = :unreadable_by, error = coalesce(:error, error), attempts = coalesce(:attempts, attempts),
    expires_at = case when :started then null else expires_at end
where id = :id

-- name: add_result
-- Keep a job's result as long as the job asks for.
insert into interlock_job_result (id, result, kept_until)
select j.id, :result, :now + j.keep_result from interlock_job j where j.id = :id and j.keep_result > 0

-- name: set_result_expiry
-- Record until when a job's result is kept.
update interlock_job_history set result_until = finished_at + keep_result where id = :id

-- name: delete_message
-- Delete the message that notified a session about a job.
delete from interlock_forced where namespace = ? and session = ? and owner = ?

-- name: park_lane
-- Park a lane, so that it waits for a person.
insert into interlock_job_hold (lane, parked_reason, parked_since) values (:lane, :reason, :now)
on conflict (lane) do update set parked_reason = excluded.parked_reason, parked_since = excluded.parked_since

-- name: fetched_by_dead
-- Select jobs of workers whose sessions have expired. ran: the job may have been running, because it was the first
-- fetched of its lane. Those come last, suspects before others. all_ran, suspects: how many such jobs the worker has, and
-- how many of them are suspects.
with recursive busy (worker) as (
    select min(worker) from interlock_job_fetched
    union all
    select (select min(c.worker) from interlock_job_fetched c where c.worker > busy.worker)
    from busy
    where busy.worker is not null
)
select worker, session, host, pid, program, leaving, crashed, ran, sum(ran) over (partition by worker) as all_ran,
       sum(ran and half is not null) over (partition by worker) as suspects,
       id, fence, fetched_at, lane, uses, cancel, notified, hooked
from (
    select w.id as worker, w.session, w.host, w.pid, w.program, w.leaving, w.crashed, j.half,
           c.lane is null or row_number() over (partition by w.id, c.lane order by j.position, c.id) = 1 as ran,
           c.id, c.fence, c.fetched_at, c.lane, c.uses, c.cancel, c.notified, c.hooked
    from busy
    cross join interlock_job_worker w on w.id = busy.worker and w.namespace = :namespace
    left join interlock_session s on s.namespace = w.namespace and s.id = w.session
    cross join interlock_job_fetched c on c.worker = w.id
    cross join interlock_job j on j.id = c.id
    where coalesce(s.expires_at, 0) <= :now_s
)
order by ran, worker, half is null, id
limit :limit

-- name: mark_crashed
-- Record that a worker crashed.
update interlock_job_worker set crashed = 1 where id = :worker

-- name: kinds_with_limits
-- Select kinds of which jobs with limits are ready.
select k.id
from interlock_job_kind k
where k.namespace = :namespace
  and (exists (select 1 from interlock_job_ready r where r.kind = k.id and r.class = 1 /* slots */)
       or exists (select 1 from interlock_job_ready r where r.kind = k.id and r.class = 2 /* paced */))
