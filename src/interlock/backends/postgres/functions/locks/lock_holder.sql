-- The holder of a lock as the library reads it.
create or replace function interlock.lock_holder(l interlock.lock, s interlock.session) returns jsonb
language sql immutable
as $$
    select jsonb_build_object(
        'owner', l.owner, 'caller', l.caller, 'session', l.session, 'host', s.host, 'pid', s.pid, 'program', s.program,
        'fence', l.fence, 'granted_at', extract(epoch from l.granted_at),
        'expires_at', extract(epoch from least(l.expires_at, s.expires_at)))
$$;
