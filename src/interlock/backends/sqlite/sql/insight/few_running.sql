select c.id, j.kind from interlock_job_claimed c cross join interlock_job j on j.id = c.id limit :scan
