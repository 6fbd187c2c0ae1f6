select interlock.claim_look_after($1, $2, $3, $4, $5, $6)
