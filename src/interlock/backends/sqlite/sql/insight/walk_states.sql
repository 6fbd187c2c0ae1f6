-- The same with how they stand.
select s.id, s.kind, s.state
from (select id from interlock_job where id < :before order by id desc limit :scan) j
cross join interlock_job_standing s on s.id = j.id
order by s.id desc
