insert into interlock_job_worker (namespace, session, host, pid, program, queues, names, runners, reads)
select namespace, id, host, pid, program, :queues, :names, :runners, :reads
from interlock_session
where namespace = :namespace and id = :session and expires_at > :now_s
on conflict (namespace, session) do update
set queues = excluded.queues, names = excluded.names, runners = excluded.runners, reads = excluded.reads
