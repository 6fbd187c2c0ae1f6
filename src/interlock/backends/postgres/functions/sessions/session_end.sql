-- End a session, and its leases with it. No key is locked for that: a fenced transaction must not keep a session from
-- ending.
create or replace function interlock.session_end(p_namespace text, p_id text, p_clock double precision) returns void
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_clock);
    freed record;
begin
    update interlock.session s set expires_at = least(s.expires_at, now_is)
    where s.namespace = p_namespace and s.id = p_id;
    for freed in
        with places as (
            delete from interlock.waiter w where w.namespace = p_namespace and w.session = p_id returning w.key
        )
        select distinct l.key
        from interlock.lock l
        left join interlock.session s on s.namespace = l.namespace and s.id = l.session
        where l.namespace = p_namespace
          and (l.session = p_id and l.owner is not null
               or l.key in (select key from places)
                  and (l.owner is null or s.expires_at is null or least(l.expires_at, s.expires_at) <= now_is))
    loop
        perform interlock.lock_notify_next(p_namespace, freed.key, p_id, now_is);
    end loop;
    delete from interlock.forced f where f.namespace = p_namespace and f.session = p_id;
end
$$;
