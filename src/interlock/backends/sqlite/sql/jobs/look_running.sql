select c.id
from interlock_job_claimed c
cross join interlock_job j on j.id = c.id
where j.kind in (select value from json_each(:kinds))
order by c.id desc
limit :limit
