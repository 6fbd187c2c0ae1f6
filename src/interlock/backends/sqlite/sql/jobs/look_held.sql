-- The heads of lanes that are held, unless they stand somewhere else.
select s.id
from interlock_job_hold h
cross join interlock_job_standing s on s.id = (
    select f.id from interlock_job f where f.lane = h.lane and f.position > 0 order by f.position limit 1)
where s.state = 'held' and s.kind in (select value from json_each(:kinds))
order by s.id desc
limit :limit
