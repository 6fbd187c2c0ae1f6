delete from interlock_job_awaited where namespace = :namespace and session = :id
