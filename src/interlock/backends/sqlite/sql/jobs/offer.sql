insert or ignore into interlock_job_ready (kind, care, sort, id, priority, lane)
select j.kind, j.care, j.sort, j.id, j.priority, j.lane
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
