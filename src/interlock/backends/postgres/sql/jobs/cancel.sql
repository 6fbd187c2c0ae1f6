select interlock.job_cancel($1, $2, $3::jsonb, $4)
