select interlock.job_watch_end($1, $2, $3)
