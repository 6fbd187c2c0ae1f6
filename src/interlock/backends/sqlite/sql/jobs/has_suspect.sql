select 1
from interlock_job_worker w
cross join interlock_job_claimed c on c.worker = w.id
cross join interlock_job j on j.id = c.id
where w.namespace = :namespace and w.session = :session and j.crashes > 0
limit 1
