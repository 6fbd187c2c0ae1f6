select interlock.job_retry($1, $2, $3)
