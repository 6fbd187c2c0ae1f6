select held, why, next_owner from interlock.lock_leave($1, $2, $3, $4, $5)
