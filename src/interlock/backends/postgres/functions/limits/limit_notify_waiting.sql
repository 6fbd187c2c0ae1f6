-- Notify the first reservations that wait under keys where jobs have freed something. No key is locked for that.
create or replace function interlock.limit_notify_waiting(p_namespace text, p_keys text[], p_now bigint) returns void
language plpgsql volatile
as $$
declare
    one text;
begin
    for one in
        select distinct u.key from unnest(p_keys) as u (key)
        where exists (
            select from interlock.limit_use r where r.namespace = p_namespace and r.key = u.key and not r.started)
    loop
        perform interlock.limit_notify_next(
            p_namespace, one, '', to_timestamp(p_now / 1e6), p_now - interlock.limit_stale());
        -- A start that was taken back makes room for those that wait for their time.
        perform pg_notify('interlock_' || r.session, 'turn ' || r.owner)
        from interlock.limit_use r
        where r.namespace = p_namespace and r.key = one and not r.started and r.wait_kind = 2 and r.waits_for = one;
    end loop;
end
$$;
