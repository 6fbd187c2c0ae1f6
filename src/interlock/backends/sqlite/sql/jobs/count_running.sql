select j.kind, count(*), sum(c.lane is not null)
from interlock_job_claimed c
cross join interlock_job j on j.id = c.id
group by j.kind
