insert into interlock_job_later (kind, at, id, placed)
select j.kind, j.due_at, j.id, j.position is not null
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
