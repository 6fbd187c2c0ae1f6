select interlock.session_sweep($1, $2)
