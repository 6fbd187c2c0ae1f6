select w.queues, w.reads
from interlock_job_worker w
join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and s.expires_at > :now_s
