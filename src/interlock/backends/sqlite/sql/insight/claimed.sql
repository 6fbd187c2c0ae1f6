select c.id
from interlock_job_worker w
cross join interlock_job_claimed c on c.worker = w.id
where w.namespace = :namespace and w.session = :session
order by c.claimed_at, c.id
limit :limit
