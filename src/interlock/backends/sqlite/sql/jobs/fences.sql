-- The last fences and attempts of jobs, unfinished or not.
select j.id, '', j.fence, j.attempts, exists (select 1 from interlock_job_claimed c where c.id = j.id)
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
cross join interlock_job_kind k on k.id = j.kind and k.namespace = :namespace
union all
select h.id, h.state, h.fence, h.attempts, 0
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
cross join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace
