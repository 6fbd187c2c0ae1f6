select interlock.job_ids($1)
