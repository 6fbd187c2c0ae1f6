select id, kind from interlock_job_wait where namespace = :namespace and not woken limit :scan
