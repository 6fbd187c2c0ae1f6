-- When the oldest of the first to be claimed became ready.
select min(sort + priority * 600000000)
from (select sort, priority from interlock_job_ready where kind = :kind and care = :care order by sort limit 100)
