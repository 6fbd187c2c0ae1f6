select s.host, s.pid, s.program, w.id, coalesce(w.barred, 0)
from interlock_session s
left join interlock_job_worker w on w.namespace = s.namespace and w.session = s.id
where s.namespace = :namespace and s.id = :session and s.expires_at > :now_s
