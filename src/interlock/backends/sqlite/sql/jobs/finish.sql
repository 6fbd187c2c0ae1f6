insert into interlock_job_history
    (id, kind, state, lane, priority, enqueued_at, due_at, claimed_at, finished_at, ran, attempt, crashes, fence, worker,
     failing, "coalesce", keep_result, limits, superseded_by, uses, error, attempts, options, arguments)
select j.id, j.kind, :state, j.lane, j.priority, j.enqueued_at, j.due_at, c.claimed_at, :now, :ran,
       j.attempt + :attempts_more, j.crashes + :crashes_more, coalesce(c.fence, j.fence), c.worker, j.failing,
       j."coalesce", j.keep_result, j.limits, :superseded_by, j.uses, coalesce(:error, j.error),
       coalesce(:attempts, j.attempts), j.options, j.arguments
from interlock_job j
left join interlock_job_claimed c on c.id = j.id
where j.id = :id
