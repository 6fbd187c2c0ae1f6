select count(*) from (
    select 1 from interlock_job_wait where namespace = :namespace and key = :key and not woken limit :limit)
