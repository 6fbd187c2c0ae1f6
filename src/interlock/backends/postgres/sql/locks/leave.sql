select case when held then 'left' else 'absent' end, fence, expires_at, null, null, why, next_owner
from interlock.lock_leave($1, $2, $3, $4, true, $5)
