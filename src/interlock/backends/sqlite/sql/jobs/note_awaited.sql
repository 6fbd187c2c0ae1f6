insert or ignore into interlock_job_awaited (namespace, session, id) values (?, ?, ?)
