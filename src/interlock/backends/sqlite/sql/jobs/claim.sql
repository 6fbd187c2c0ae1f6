insert into interlock_job_claimed (id, worker, fence, claimed_at, lane, uses, turn)
select j.id, :worker, :fence, :now, j.lane, j.uses, :turn
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
