select interlock.job_mark_leaving($1, $2, $3, $4)
