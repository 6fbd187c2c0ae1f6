-- The last start of a job, which never ran, counts for nothing.
delete from interlock_job_start
where namespace = :namespace and key = :key and number = (
    select max(number) from interlock_job_start where namespace = :namespace and key = :key and id = :id)
