insert into interlock_job_wait (namespace, key, kind, ticket, id, laned) values (?, ?, ?, ?, ?, ?)
