select c.id, c.fence, c.claimed_at, c.lane, c.uses, c.cancel, c.told
from json_each(:ids) e
cross join interlock_job_claimed c on c.id = e.value
where c.worker = :worker
