select interlock.job_release($1, $2, $3::jsonb, $4)
