select interlock.job_attend($1, $2, $3, $4, $5, $6::jsonb)
