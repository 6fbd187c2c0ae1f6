select f.session_ended, f.look_again, f.scan_from,
       j.id, j.name, j.queue, j.lane, j.fence, j.attempt, j.crashes, j.half, j.priority, j.enqueued_at, j.due_at,
       j.arguments, j.options, j.slots, j.paced
from interlock.job_fetch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) f
left join lateral interlock.job_fetched_rows($1, f.ids, f.fences) j on true
