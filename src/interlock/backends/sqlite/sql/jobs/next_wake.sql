select at from interlock_job_wake where namespace = :namespace order by at limit 1
