-- Where unfinished jobs stand in their lanes and lines, and what their lanes are at.
select j.id, j.lane, j.position, j.sort, j.uses, h.held_by, h.held_reason, h.held_since, h.parked_reason, h.parked_since,
       (select f.id from interlock_job f where f.lane = j.lane and f.position > 0 order by f.position limit 1),
       w.key, w.ticket, j.half
from interlock_job j
left join interlock_job_hold h on h.lane = j.lane
left join interlock_job_wait w on w.id = j.id and not w.woken
where j.id in (select value from json_each(:ids))
