select id from interlock_job_kind where namespace = :namespace and queue = :queue and name = :name
