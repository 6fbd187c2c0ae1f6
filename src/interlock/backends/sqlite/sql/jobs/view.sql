select id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, claimed_at, session, host, pid, program,
       fence, error, uses, arguments, options, attempts
from interlock_job_standing
where id in (select value from json_each(:ids)) and namespace = :namespace
