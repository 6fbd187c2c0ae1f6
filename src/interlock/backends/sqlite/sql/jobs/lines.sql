-- Which of some keys have a line, and of which kinds those in it are, however many they are.
select e.value, k.id
from json_each(:keys) e
cross join interlock_job_kind k on k.namespace = :namespace
where exists (select 1 from interlock_job_wait w where w.namespace = :namespace and w.key = e.value)
  and exists (select 1 from interlock_job_wait w where w.namespace = :namespace and w.key = e.value and w.kind = k.id)
order by e.key, k.id
