delete from interlock_job_start
where (namespace, key, at, number) in (
    select namespace, key, at, number from interlock_job_start where counts_until <= :now order by counts_until limit :limit)
