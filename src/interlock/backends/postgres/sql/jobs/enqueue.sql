select interlock.job_enqueue($1, row(
    $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)::interlock.new_jobs, null, $20)
