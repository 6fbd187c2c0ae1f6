-- Unfinished jobs in short. Of the attempts the last one.
select id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, claimed_at, session, host, pid, program,
       fence, error, uses, '', options, '[' || json_extract(attempts, '$[#-1]') || ']'
from interlock_job_standing
where id in (select value from json_each(:ids)) and namespace = :namespace
