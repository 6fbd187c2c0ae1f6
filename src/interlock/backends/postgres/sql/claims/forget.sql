select interlock.claim_forget($1, $2, $3, $4::jsonb, $5)
