update interlock_job_worker set crashed = 1 where id = :worker
