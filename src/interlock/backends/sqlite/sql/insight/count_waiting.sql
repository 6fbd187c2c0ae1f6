select kind, count(*) from (select kind from interlock_job_wait where namespace = :namespace and not woken limit :limit) group by kind
