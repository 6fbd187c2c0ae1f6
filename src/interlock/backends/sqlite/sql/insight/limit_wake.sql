select at from interlock_job_wake where namespace = :namespace and key = :key
