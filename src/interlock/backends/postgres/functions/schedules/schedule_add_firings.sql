-- Add firings after the last one of a schedule, and remove the oldest; return the number of the new last one. p_rows is a
-- JSON array of [at, kind, outcome, job, count].
-- planner: caller
create or replace function interlock.schedule_add_firings(
    p_namespace text, p_name text, p_last bigint, p_rows jsonb, p_kept integer, p_now bigint
) returns bigint
language plpgsql volatile
as $$
declare
    last bigint := p_last + jsonb_array_length(p_rows);
begin
    insert into interlock.schedule_firing (namespace, name, number, at, fired_at, kind, outcome, job, count)
    select p_namespace, p_name, p_last + u.n, (u.value ->> 0)::bigint, p_now, u.value ->> 1, u.value ->> 2,
           (u.value ->> 3)::bigint, (u.value ->> 4)::integer
    from jsonb_array_elements(p_rows) with ordinality as u (value, n);
    delete from interlock.schedule_firing f
    where f.namespace = p_namespace and f.name = p_name and f.number <= last - p_kept;
    return last;
end
$$;
