delete from interlock_job_start where namespace = ? and key = ? and at <= ? and counts_until <= ?
