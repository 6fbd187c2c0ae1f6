select kind, count(*), coalesce(sum(lane is not null), 0), min(sort + priority * 600000000)
from interlock_job_ready
group by kind
