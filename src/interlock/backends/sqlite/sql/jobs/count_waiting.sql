select kind, count(*), sum(laned) from interlock_job_wait where namespace = :namespace and not woken group by kind
