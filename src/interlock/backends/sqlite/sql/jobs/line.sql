select w.ticket, w.id, w.woken, j.uses
from interlock_job_wait w
cross join interlock_job j on j.id = w.id
where w.namespace = ? and w.key = ? and w.kind = ?
order by w.ticket
