select id, kind, state from interlock_job_history where lane = :lane and id < :before order by id desc limit :scan
