delete from interlock_job_again where at <= :before
