select interlock.job_cancel($1, $2, $3, $4, $5)
