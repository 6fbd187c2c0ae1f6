select j.half
from interlock_job_worker w
cross join interlock_job_claimed c on c.worker = w.id
cross join interlock_job j on j.id = c.id
where w.namespace = :namespace and w.session = :session and j.half is not null
limit 1
