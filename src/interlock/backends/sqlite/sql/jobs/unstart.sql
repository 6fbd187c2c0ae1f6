-- The start of a job that never ran counts for nothing.
delete from interlock_job_start
where namespace = :namespace and key = :key and at = :at and number = (
    select max(number) from interlock_job_start
    where namespace = :namespace and key = :key and at = :at and id = :id)
