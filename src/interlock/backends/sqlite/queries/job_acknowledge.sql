-- name: fetches
-- Read a worker's fetched jobs by ID.
select c.id, c.fence, c.fetched_at, c.lane, c.uses, c.cancel, c.told
from json_each(:ids) e
cross join interlock_job_fetched c on c.id = e.value
where c.worker = :worker

-- name: fetches_of_worker
-- Read a worker's jobs up to a fetch number, except those it names.
select c.id, c.fence, c.fetched_at, c.lane, c.uses, c.cancel, c.told
from interlock_job_fetched c
where c.worker = :worker and c.fetch_number <= :fetch_number and c.id not in (select value from json_each(:but))

-- name: worker_of_session
-- Read a session's worker.
select id, host, pid, program from interlock_job_worker where namespace = :namespace and session = :session

-- name: bar
-- Refuse a session's fetches up to a number from now on.
insert into interlock_job_worker (namespace, session, host, pid, program, barred)
select namespace, id, host, pid, program, :fetch_number
from interlock_session
where namespace = :namespace and id = :session
on conflict (namespace, session) do update set barred = max(barred, excluded.barred)

-- name: details
-- Read what acknowledging jobs needs of them.
select j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.half, j.failing, j.attempts, j.refused_by, j.sort
from json_each(:ids) e
cross join interlock_job j on j.id = e.value

-- name: fences
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

-- name: finish
-- Move a job to the history.
insert into interlock_job_history
    (id, kind, state, lane, priority, enqueued_at, due_at, fetched_at, finished_at, ran, attempt, crashes, fence, worker,
     failing, "coalesce", keep_result, limits, superseded_by, uses, error, attempts, options, arguments)
select j.id, j.kind, :state, j.lane, j.priority, j.enqueued_at, j.due_at, c.fetched_at, :now, :ran,
       j.attempt + :attempts_more, j.crashes + :crashes_more, coalesce(c.fence, j.fence), c.worker, j.failing,
       j."coalesce", j.keep_result, j.limits, :superseded_by, j.uses, coalesce(:error, j.error),
       coalesce(:attempts, j.attempts), j.options, j.arguments
from interlock_job j
left join interlock_job_fetched c on c.id = j.id
where j.id = :id

-- name: finish_done
-- Move jobs that are done to the history, given as an object of IDs and run times.
insert into interlock_job_history
    (id, kind, state, lane, priority, enqueued_at, due_at, fetched_at, finished_at, ran, attempt, crashes, fence, worker,
     failing, "coalesce", keep_result, limits, uses, error, attempts, options, arguments)
select j.id, j.kind, 'done', j.lane, j.priority, j.enqueued_at, j.due_at, c.fetched_at, :now, e.value, j.attempt + 1,
       j.crashes, c.fence, c.worker, j.failing, j."coalesce", j.keep_result, j.limits, j.uses, null, j.attempts,
       j.options, j.arguments
from json_each(:ran) e
cross join interlock_job_fetched c on c.id = cast(e.key as integer)
cross join interlock_job j on j.id = c.id

-- name: forget_jobs
-- Delete unfinished jobs.
delete from interlock_job where id in (select value from json_each(:ids))

-- name: end_fetch
-- Delete the record that jobs are fetched.
delete from interlock_job_fetched where id in (select value from json_each(:ids))

-- name: renew
-- Update a job that ended its attempt but not itself: it is retried, crashed, was interrupted or is unreadable.
update interlock_job
set attempt = :attempt, crashes = :crashes, half = :half, fence = :fence, due_at = coalesce(:due_at, due_at), position = :position,
    parked = :parked, refused = :refused, refused_by = :refused_by, error = coalesce(:error, error), attempts = coalesce(:attempts, attempts)
where id = :id

-- name: keep_result
-- Keep a job's result as long as the job asks for.
insert into interlock_job_result (id, result, kept_until)
select j.id, :result, :now + j.keep_result from interlock_job j where j.id = :id and j.keep_result > 0

-- name: note_result
-- Record until when a job's result is kept.
update interlock_job_history set result_until = finished_at + keep_result where id = :id

-- name: forget_told
-- Delete the message that told a session about a job.
delete from interlock_forced where namespace = ? and session = ? and owner = ?

-- name: park_lane
-- Park a lane, so that it waits for a person.
insert into interlock_job_hold (lane, parked_reason, parked_since) values (:lane, :reason, :now)
on conflict (lane) do update set parked_reason = excluded.parked_reason, parked_since = excluded.parked_since

-- name: dead_fetches
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
       id, fence, fetched_at, lane, uses, cancel, told
from (
    select w.id as worker, w.session, w.host, w.pid, w.program, w.leaving, w.crashed, j.half,
           c.lane is null or row_number() over (partition by w.id, c.lane order by j.position, c.id) = 1 as ran,
           c.id, c.fence, c.fetched_at, c.lane, c.uses, c.cancel, c.told
    from busy
    cross join interlock_job_worker w on w.id = busy.worker and w.namespace = :namespace
    left join interlock_session s on s.namespace = w.namespace and s.id = w.session
    cross join interlock_job_fetched c on c.worker = w.id
    cross join interlock_job j on j.id = c.id
    where coalesce(s.expires_at, 0) <= :now_s
)
order by ran, worker, half is null, id
limit :limit

-- name: note_crashed
-- Record that a worker crashed.
update interlock_job_worker set crashed = 1 where id = :worker

-- name: kinds_with_limits
-- Select kinds of which jobs with limits are ready.
select k.id
from interlock_job_kind k
where k.namespace = :namespace
  and (exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 1)
       or exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 2))
