-- name: any_refused
-- Check for jobs that some version of their handler could not read.
select 1 from interlock_job where refused limit 1

-- name: refusals
-- Select which sets of handler versions could not read jobs of a kind.
with recursive sets (refused_by) as (
    select min(refused_by) from interlock_job where refused and kind = :kind
    union all
    select (select min(j.refused_by) from interlock_job j where j.refused and j.kind = :kind and j.refused_by > sets.refused_by)
    from sets
    where sets.refused_by is not null
)
select refused_by from sets where refused_by is not null

-- name: refused
-- Select jobs of a kind that a set of handler versions could not read.
select id, lane, parked is not null, error from interlock_job
where refused and kind = :kind and refused_by = :refused_by
order by id
limit :limit

-- name: refuse_again
-- Set jobs aside because no live worker can read them, unless they are fetched.
update interlock_job set refused = 1
where id in (select value from json_each(:ids))
  and not exists (select 1 from interlock_job_fetched c where c.id = interlock_job.id)
returning id

-- name: readmit
-- Return jobs to their queue because a live worker can read them.
update interlock_job set refused = 0, parked = null where id in (select value from json_each(:ids))

-- name: park_refused
-- Park or unpark a job that is unreadable.
update interlock_job set parked = ? where id = ? and refused

-- name: live_reads
-- Select the queues and handler versions of live workers.
select w.queues, w.reads
from interlock_job_worker w
join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and s.expires_at > :now_s
