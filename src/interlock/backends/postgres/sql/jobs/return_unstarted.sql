select returned, blocked from interlock.job_return_unstarted($1, $2, $3, $4, $5, $6)
