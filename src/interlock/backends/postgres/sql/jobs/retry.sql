select interlock.job_retry($1, $2, $3::jsonb, $4)
