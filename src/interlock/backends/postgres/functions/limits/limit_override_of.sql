-- The figure that a person set for a key, or else for all keys of its limit; no row if there is none.
create or replace function interlock.limit_override_of(p_namespace text, p_key text)
returns table (max_count integer, per bigint)
language sql stable
as $$
    select o.max_count, o.per from interlock.limit_override o
    where o.namespace = p_namespace
      and o.name in (p_key, split_part(p_key, ':', 1) || coalesce(':' || nullif(split_part(p_key, ':', 2), ''), ''))
    order by o.name = p_key desc limit 1
$$;
