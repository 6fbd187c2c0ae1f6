-- How many stand before a place in a key's line. By kinds, each of which is a range of the line.
select count(*) from (
    select 1
    from interlock_job_kind k
    cross join interlock_job_wait w on w.namespace = :namespace and w.key = :key and w.kind = k.id and w.ticket < :ticket
    where k.namespace = :namespace
    limit :limit)
