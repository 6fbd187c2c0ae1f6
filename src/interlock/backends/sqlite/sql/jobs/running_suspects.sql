-- The suspects that workers have, those of one group first.
select w.session, w.host, w.pid, w.program, j.half, json_group_array(j.id), count(*)
from interlock_job j
cross join interlock_job_claimed c on c.id = j.id
cross join interlock_job_worker w on w.id = c.worker and w.namespace = :namespace
where j.half is not null
group by w.id, j.half
order by j.half = :half desc, j.half / 2 = :half / 2 desc, w.session
limit :limit
