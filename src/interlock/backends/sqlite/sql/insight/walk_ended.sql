select id, kind, state from interlock_job_history where id < :before order by id desc limit :scan
