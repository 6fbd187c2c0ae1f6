select a.id
from interlock_job_awaited a
where a.namespace = :namespace and a.session = :session
  and not exists (select 1 from interlock_job j where j.id = a.id)
limit 1000
