-- The first of one kind in a key's line.
select ticket from interlock_job_wait
where namespace = :namespace and key = :key and kind = :kind
order by ticket
limit :limit
