-- name: add_job
-- Store a new job.
insert into interlock_job
    (id, kind, lane, position, priority, enqueued_at, due_at, on_failure, coalesces, keep_result, limits, uses, expires_at,
     options, arguments, hooks, cause)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: known_ids
-- Select which of some IDs are already jobs, unfinished or not.
select value from json_each(:ids)
where exists (select 1 from interlock_job where id = value) or exists (select 1 from interlock_job_history where id = value)

-- name: any_resubmitted
-- Check whether any job was enqueued a second time lately.
select 1 from interlock_job_resubmitted limit 1

-- name: resubmitted
-- Select which of some jobs were enqueued a second time.
select a.id
from json_each(:ids) e
cross join interlock_job_resubmitted a on a.id = e.value

-- name: add_resubmitted
-- Remember that a job was enqueued a second time.
insert into interlock_job_resubmitted (id, at) values (?, ?) on conflict (id) do nothing
