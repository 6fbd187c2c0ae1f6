select interlock.session_renew($1, $2, $3, $4)
