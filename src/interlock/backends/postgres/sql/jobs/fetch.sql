select id, name, queue, lane, fence, attempt, crashes, half, priority, enqueued_at, due_at, arguments, options, slots, paced
from interlock.job_fetch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
