-- Kinds of which jobs with limits are ready.
select k.id
from interlock_job_kind k
where k.namespace = :namespace
  and (exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 1)
       or exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 2))
