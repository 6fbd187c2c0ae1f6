select state, kind, lane, position, session from interlock_job_standing where id = :id and namespace = :namespace
