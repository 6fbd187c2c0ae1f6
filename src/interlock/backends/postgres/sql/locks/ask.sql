select answer, fence, expires_at, look_again, details, null, null
from interlock.lock_ask($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
