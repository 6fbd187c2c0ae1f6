insert into interlock_job_worker (namespace, session, host, pid, program, barred)
select namespace, id, host, pid, program, :turn
from interlock_session
where namespace = :namespace and id = :session
on conflict (namespace, session) do update set barred = max(barred, excluded.barred)
