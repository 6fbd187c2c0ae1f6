select interlock.lock_force($1, $2, $3, $4::jsonb, $5)
