select id, lane, parked is not null, error from interlock_job
where refused and kind = :kind and refused_by = :refused_by
order by id
limit :limit
