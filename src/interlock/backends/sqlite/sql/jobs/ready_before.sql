-- How many ready jobs of a queue come before one, counted up to a bound.
select count(*) from (
    select 1
    from interlock_job_kind k
    cross join (values (0), (1), (2), (3)) cares
    cross join interlock_job_ready r on r.kind = k.id and r.care = cares.column1
    where k.namespace = :namespace and k.queue = :queue and (r.sort, r.id) < (:sort, :id)
    limit :limit)
