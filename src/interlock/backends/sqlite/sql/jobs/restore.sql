insert into interlock_job
    (id, kind, lane, priority, enqueued_at, due_at, fence, failing, "coalesce", keep_result, limits, uses, attempts, options,
     arguments)
select id, kind, lane, priority, enqueued_at, :now, fence, failing, "coalesce", keep_result, limits, uses, attempts, options,
       arguments
from interlock_job_history
where id = :id
returning kind, lane
