select interlock.job_prune($1, $2, $3, $4)
