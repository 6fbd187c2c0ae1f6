select owner, expires_at, refusal from interlock.claim_renew($1, $2, $3, $4, $5)
