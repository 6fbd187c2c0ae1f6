update interlock_job set position = ? where id = ?
