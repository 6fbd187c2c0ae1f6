insert into interlock_job_use (namespace, key, id, most, per) values (?, ?, ?, ?, ?)
