-- Lock keys for reservations, in order, as fetches do, and mark them as shared, so that fetches count reservations. A key
-- that was removed as unused meanwhile is created again.
create or replace function interlock.limit_lock(p_namespace text, p_keys text[]) returns void
language plpgsql volatile
as $$
declare
    locked text[] := '{}';
begin
    for attempt in 1 .. 100 loop
        locked := interlock.job_limit_lock(p_namespace, p_keys, locked);
        exit when cardinality(locked) = cardinality(p_keys);
        if attempt = 100 then
            raise exception 'keys of limits are being removed' using errcode = 'serialization_failure';
        end if;
        perform pg_sleep(0.002);
    end loop;
    update interlock.job_limit l set shared = true
    from unnest(p_keys) as u (key) where l.namespace = p_namespace and l.key = u.key and not l.shared;
end
$$;
