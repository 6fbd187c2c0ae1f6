-- Read records after the writes that are in progress on them have ended. With p_wait, waits for these; otherwise leaves
-- out the records that another transaction has locked. The share lock ends with this call. It is not durable, because it
-- has to survive nothing.
-- planner: lookups
create or replace function interlock.record_read_current(
    p_namespace text, p_kinds text[], p_ids text[], p_wait boolean
) returns setof interlock.record
language plpgsql volatile
as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    if p_wait then
        return query
        select r.* from unnest(p_kinds, p_ids) with ordinality as u (kind, id, n)
        join interlock.record r on r.namespace = p_namespace and r.kind = u.kind and r.id = u.id
        order by u.n for share of r;
    else
        return query
        select r.* from unnest(p_kinds, p_ids) with ordinality as u (kind, id, n)
        join interlock.record r on r.namespace = p_namespace and r.kind = u.kind and r.id = u.id
        order by u.n for share of r skip locked;
    end if;
end
$$;
