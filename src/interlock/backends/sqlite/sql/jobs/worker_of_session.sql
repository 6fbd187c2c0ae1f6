select id, host, pid, program from interlock_job_worker where namespace = :namespace and session = :session
