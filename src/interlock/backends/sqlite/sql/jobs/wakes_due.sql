select key from interlock_job_wake where namespace = :namespace and at <= :now order by at limit 1000
