select interlock.job_hold($1, $2, $3::jsonb, $4)
