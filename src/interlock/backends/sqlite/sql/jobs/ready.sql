select r.sort, j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.priority, j.enqueued_at / 1e6, j.due_at / 1e6,
       j.uses, j."coalesce", j.arguments, j.options,
       case when j.uses is not null then (select w.ticket from interlock_job_wait w where w.id = j.id) end, 0, '', j.half
from interlock_job_ready r
cross join interlock_job j on j.id = r.id
where r.kind = ? and r.care = ?
order by r.sort, r.id
