select owner, expires_at, why from interlock.lock_renew($1, $2, $3, $4, $5)
