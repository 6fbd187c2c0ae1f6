select interlock.job_await($1, $2, $3)
