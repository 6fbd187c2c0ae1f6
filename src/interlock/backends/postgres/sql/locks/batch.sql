select answer, fence, expires_at, look_again, details, why, next_owner
from interlock.lock_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
