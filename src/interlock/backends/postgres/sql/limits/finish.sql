select answer, null, null, null, null, null, next_owners from interlock.limit_finish($1, $2, $3, $4, true, $5)
