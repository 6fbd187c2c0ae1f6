select interlock.session_end($1, $2, $3), interlock.limit_session_end($1, $2, $4, $3), interlock.job_end_session($1, $2)
