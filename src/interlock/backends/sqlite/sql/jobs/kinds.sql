-- What there is in some queues: whether anything is ready, for each way to handle it, and when the next one is due.
select k.id, k.queue, k.name,
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 0),
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 1),
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 2),
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.care = 3),
       (select t.at from interlock_job_later t where t.kind = k.id order by t.at limit 1)
from json_each(:queues) q
cross join interlock_job_kind k on k.namespace = :namespace and k.queue = q.value
