select interlock.session_end($1, $2, $3)
