select refused, ready from interlock.job_acknowledge($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
