select answer, fence, expires_at, attempt, details from interlock.claim_take($1, $2, $3, $4, $5, $6, $7)
