select s.kind, count(*)
from (select lane from interlock_job_hold where lane > :first and lane < :beyond limit :scan) h
cross join interlock_job_standing s on s.id = (
    select f.id from interlock_job f where f.lane = h.lane and f.position > 0 order by f.position limit 1)
where s.state = 'held'
group by s.kind
