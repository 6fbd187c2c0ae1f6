select interlock.job_session_leaving($1, $2, $3, $4)
