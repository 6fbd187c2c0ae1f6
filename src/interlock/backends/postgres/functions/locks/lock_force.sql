-- Take a key from its holder. Returns null if it had no live holder.
create or replace function interlock.lock_force(
    p_namespace text, p_key text, p_why text, p_attribution jsonb, p_clock double precision
) returns jsonb
language plpgsql volatile
as $$
declare
    l interlock.lock;
    s interlock.session;
    now_is timestamptz;
begin
    select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for update;
    now_is := interlock.now_or(p_clock);
    select * into s from interlock.session x where x.namespace = p_namespace and x.id = l.session;
    if l.owner is null or s.id is null or least(l.expires_at, s.expires_at) <= now_is then
        return null;
    end if;
    perform interlock.durably();
    update interlock.lock k
    set owner = null, ended_owner = l.owner, ended_why = p_why, free_since = now_is
    where k.namespace = p_namespace and k.key = p_key;
    insert into interlock.forced (namespace, session, owner, why, at)
    values (p_namespace, l.session, l.owner, p_why, now_is) on conflict do nothing;
    perform pg_notify('interlock_' || l.session, left('lost ' || l.owner || ' ' || p_why, 2000));
    perform interlock.lock_notify_next(p_namespace, p_key, '', now_is);
    perform interlock.journal_add(
        p_namespace, interlock.micros(now_is), p_attribution, 'lock.force_release', p_key,
        json_build_object('holder', l.caller, 'session', l.session, 'host', s.host, 'pid', s.pid, 'program', s.program,
                          'fence', l.fence),
        null, l.fence);
    return interlock.lock_holder(l, s);
end
$$;
