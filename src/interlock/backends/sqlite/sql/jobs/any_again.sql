select 1 from interlock_job_again limit 1
