select interlock.job_hold($1, $2, $3, $4, $5)
