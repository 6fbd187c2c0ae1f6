select answer, begins_at, waits_for, ahead, look_again, differs, null
from interlock.limit_ask($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, true, $12)
