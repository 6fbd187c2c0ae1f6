select answer, fence, expires_at, ahead, look_again, details
from interlock.lock_ask($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
