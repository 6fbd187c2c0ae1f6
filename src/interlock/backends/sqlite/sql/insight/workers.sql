select w.session, w.host, w.pid, w.program, w.queues, w.names, w.runners,
       (select count(*) from interlock_job_claimed c where c.worker = w.id), s.begun_at, s.expires_at,
       s.blocked_since, s.blocked_by, w.reads
from interlock_job_worker w
join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and s.expires_at > :now_s and (:session is null or w.session = :session) and w.queues <> '[]'
order by s.begun_at, w.id
limit :limit
