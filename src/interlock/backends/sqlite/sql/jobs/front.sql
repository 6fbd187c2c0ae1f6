-- The first in a key's line, among some kinds.
select w.ticket
from json_each(:kinds) e
cross join interlock_job_wait w on w.namespace = :namespace and w.key = :key and w.kind = e.value
order by w.ticket
limit :limit
