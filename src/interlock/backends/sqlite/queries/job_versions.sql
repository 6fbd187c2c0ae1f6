-- name: any_unreadable
-- Check for jobs that some version of their handler could not read.
select 1 from interlock_job where unreadable limit 1

-- name: unreadable_sets
-- Select which sets of handler versions could not read jobs of a kind.
with recursive sets (unreadable_by) as (
    select min(unreadable_by) from interlock_job where unreadable and kind = :kind
    union all
    select (select min(j.unreadable_by) from interlock_job j where j.unreadable and j.kind = :kind and j.unreadable_by > sets.unreadable_by)
    from sets
    where sets.unreadable_by is not null
)
select unreadable_by from sets where unreadable_by is not null

-- name: unreadable_jobs
-- Select jobs of a kind that a set of handler versions could not read.
select id, lane, parked is not null, error from interlock_job
where unreadable and kind = :kind and unreadable_by = :unreadable_by
order by id
limit :limit

-- name: set_unreadable
-- Set jobs aside because no live worker can read them, unless they are fetched.
update interlock_job set unreadable = 1
where id in (select value from json_each(:ids))
  and not exists (select 1 from interlock_job_fetched c where c.id = interlock_job.id)
returning id

-- name: clear_unreadable
-- Return jobs to their queue because a live worker can read them.
update interlock_job set unreadable = 0, parked = null where id in (select value from json_each(:ids))

-- name: park_unreadable
-- Park or unpark a job that is unreadable.
update interlock_job set parked = ? where id = ? and unreadable

-- name: live_versions
-- Select the queues and handler versions of live workers.
select w.queues, w.handler_versions
from interlock_job_worker w
join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and s.expires_at > :now_s
