select j.id, k.name, c.claimed_at, null, w.session, w.host, w.pid, w.program
from interlock_job_use u
cross join interlock_job j on j.id = u.id
join interlock_job_kind k on k.id = j.kind
join interlock_job_claimed c on c.id = u.id
left join interlock_job_worker w on w.id = c.worker
where u.namespace = :namespace and u.key = :key and u.per = 0
order by c.claimed_at, j.id
limit :limit
