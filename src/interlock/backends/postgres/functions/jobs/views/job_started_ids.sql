-- The fetched jobs that their workers have reported as started.
create or replace function interlock.job_started_ids(p_namespace text) returns table (id bigint)
language sql stable
as $$
    select u.id
    from interlock.job_started s
    cross join lateral unnest(s.ids, s.fences) as u (id, fence)
    join interlock.job_fetched c on c.fence = u.fence and u.id = any (c.ids)
    where s.namespace = p_namespace
$$;
