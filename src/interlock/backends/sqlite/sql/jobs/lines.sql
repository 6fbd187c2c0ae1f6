-- Which of some keys have a line, and of which kinds those in it are.
select distinct w.key, w.kind
from json_each(:keys) e
cross join interlock_job_wait w on w.namespace = :namespace and w.key = e.value
order by w.key, w.kind
