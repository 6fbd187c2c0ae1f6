select interlock.lock_guard($1, $2, $3, $4, $5)
