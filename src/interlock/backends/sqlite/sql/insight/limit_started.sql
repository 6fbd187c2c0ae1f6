select count(*) from (
    select 1 from interlock_job_start where namespace = :namespace and key = :key and counts_until > :now limit :limit)
