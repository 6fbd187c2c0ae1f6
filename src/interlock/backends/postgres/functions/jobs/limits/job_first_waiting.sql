-- The first jobs in a key's queue that belong to a pool and have one of these names.
create or replace function interlock.job_first_waiting(p_namespace text, p_key text, p_pool text, p_names text[], p_max integer)
returns table (id bigint, ticket bigint)
language sql stable
as $$
    select f.id, f.ticket
    from (select distinct u.name from unnest(p_names) as u (name)) n
    cross join lateral (
        select w.id, w.ticket from interlock.job_limit_wait w
        where w.key = p_key and w.namespace = p_namespace and w.pool = p_pool and w.name = n.name
        order by w.ticket limit greatest(p_max, 0)) f
    order by f.ticket limit greatest(p_max, 0)
$$;
