select answer, null, null, null, details from interlock.claim_settle($1, $2, $3, $4, $5, $6, $7, $8, $9)
