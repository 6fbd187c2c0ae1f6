select interlock.session_sweep($1, $2) + interlock.claim_sweep($1, $2) + interlock.limit_sweep($1, $3, $2)
       + interlock.job_sweep($1, $2)
