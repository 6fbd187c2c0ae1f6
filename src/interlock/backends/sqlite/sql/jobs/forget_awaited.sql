delete from interlock_job_awaited
where namespace = :namespace and session = :session
  and not exists (select 1 from interlock_job j where j.id = interlock_job_awaited.id)
