delete from interlock_job_use where namespace = ? and key = ? and id = ?
