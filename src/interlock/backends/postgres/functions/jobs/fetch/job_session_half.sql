-- The half of suspects of which a session has fetched some; null if it has none.
-- planner: lookups
create or replace function interlock.job_session_half(p_namespace text, p_session text) returns bigint
language plpgsql volatile
as $$
begin
    return (
        select j.half from interlock.job_fetched c
        cross join lateral unnest(c.ids) as o (id)
        join interlock.job j on j.id = o.id
        where c.session = p_session and c.namespace = p_namespace and j.half is not null limit 1);
end
$$;
