select c.id, c.fence, c.claimed_at, c.lane, c.uses, c.cancel, c.told
from interlock_job_claimed c
where c.worker = :worker and c.turn <= :turn and c.id not in (select value from json_each(:but))
