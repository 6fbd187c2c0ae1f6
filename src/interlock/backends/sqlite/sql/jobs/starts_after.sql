select count(*) from interlock_job_start where namespace = :namespace and key = :key and at > :after
