select interlock.job_release($1, $2, $3)
