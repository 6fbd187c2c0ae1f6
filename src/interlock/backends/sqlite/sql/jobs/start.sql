insert into interlock_job_start (namespace, key, at, number, id, counts_until) values (?, ?, ?, ?, ?, ?)
