select t.id, coalesce(k.name, ''), t.at, t.counts_until, w.session, w.host, w.pid, w.program
from interlock_job_start t
left join interlock_job_claimed c on c.id = t.id
left join interlock_job j on j.id = t.id
left join interlock_job_history h on h.id = t.id
left join interlock_job_kind k on k.id = coalesce(j.kind, h.kind)
left join interlock_job_worker w on w.id = coalesce(c.worker, h.worker)
where t.namespace = :namespace and t.key = :key and t.counts_until > :now
order by t.at, t.number
limit :limit
