-- The start so many before the last one.
select at from interlock_job_start where namespace = :namespace and key = :key order by at desc limit 1 offset :before
