-- name: claim
-- Claim a key.
select answer, fence, expires_at, attempt, details from interlock.claim_take($1, $2, $3, $4, $5, $6, $7)

-- name: batch
-- Run several claims and finishes in one transaction.
select answer, fence, expires_at, attempt, details
from interlock.claim_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: finish
-- Finish a claim as done or failed.
select answer, null, null, null, details from interlock.claim_finish($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: renew
-- Renew claims.
select owner, expires_at, refusal from interlock.claim_renew($1, $2, $3, $4, $5)

-- name: forget
-- Remove a claim.
select interlock.claim_forget($1, $2, $3, $4::jsonb, $5)

-- name: list
-- List claims by key.
select interlock.claim_list($1, $2, $3, $4, $5, $6, $7)
