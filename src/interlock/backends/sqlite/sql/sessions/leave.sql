insert into interlock_job_worker (namespace, session, host, pid, program, leaving)
select namespace, id, host, pid, program, :leaving
from interlock_session
where namespace = :namespace and id = :id
  and (:leaving or exists (select 1 from interlock_job_worker where namespace = :namespace and session = :id))
on conflict (namespace, session) do update set leaving = excluded.leaving
