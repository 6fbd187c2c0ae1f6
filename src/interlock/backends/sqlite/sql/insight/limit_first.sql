-- The limits of one that waits for a key.
select j.uses from interlock_job_wait w cross join interlock_job j on j.id = w.id
where w.namespace = :namespace and w.key = :key limit 1
