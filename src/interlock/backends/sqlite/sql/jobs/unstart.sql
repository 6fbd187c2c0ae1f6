-- The start of a job that never ran counts for nothing.
delete from interlock_limit_start
where namespace = :namespace and key = :key and at = :at and ticket = (
    select min(ticket) from interlock_limit_start
    where namespace = :namespace and key = :key and at = :at and owner = :owner)
