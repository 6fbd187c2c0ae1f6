select answer, begins_at, waits_for, ahead, look_again, differs, next_owners
from interlock.limit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
