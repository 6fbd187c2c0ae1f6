select id from interlock_job_result where kept_until <= :now order by kept_until limit :limit
