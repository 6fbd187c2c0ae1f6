select c.id, c.fence, w.session
from interlock_job_claimed c
join interlock_job_worker w on w.id = c.worker
where c.lane = :lane
