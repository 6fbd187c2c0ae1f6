-- Jobs that are done, as an object of their ids and how long they ran.
insert into interlock_job_history
    (id, kind, state, lane, priority, enqueued_at, due_at, claimed_at, finished_at, ran, attempt, crashes, fence, worker,
     failing, "coalesce", keep_result, limits, uses, error, attempts, options, arguments)
select j.id, j.kind, 'done', j.lane, j.priority, j.enqueued_at, j.due_at, c.claimed_at, :now, e.value, j.attempt + 1,
       j.crashes, c.fence, c.worker, j.failing, j."coalesce", j.keep_result, j.limits, j.uses, null, j.attempts,
       j.options, j.arguments
from json_each(:ran) e
cross join interlock_job_claimed c on c.id = cast(e.key as integer)
cross join interlock_job j on j.id = c.id
