select id from interlock_job_again
