-- The heads of lanes that are held or parked.
select f.id, f.kind
from interlock_job_hold h
cross join interlock_job f on f.id = (
    select x.id from interlock_job x where x.lane = h.lane and x.position > 0 order by x.position limit 1)
where h.lane > :first and h.lane < :beyond
limit :scan
