-- Remove a claim and notify its holder. Returns null if there was none.
create or replace function interlock.claim_forget(
    p_namespace text, p_key text, p_why text, p_attribution jsonb, p_clock double precision
) returns json
language plpgsql volatile
as $$
declare
    c interlock.claim;
    now_is timestamptz;
begin
    select * into c from interlock.claim k where k.namespace = p_namespace and k.key = p_key for update;
    now_is := interlock.now_or(p_clock);
    if not coalesce(c.kept_until > now_is, false) then
        return null;
    end if;
    perform interlock.durably();
    delete from interlock.claim k where k.namespace = p_namespace and k.key = p_key;
    if c.state = 'in progress' then
        insert into interlock.forced (namespace, session, owner, why, at)
        values (p_namespace, c.session, c.owner, p_why, now_is) on conflict do nothing;
        perform pg_notify('interlock_' || c.session, left('lost ' || c.owner || ' ' || p_why, 2000));
    end if;
    perform interlock.journal_add(
        p_namespace, interlock.micros(now_is), p_attribution, 'claim.forget', p_key,
        json_build_object('state', c.state, 'attempt', c.attempt, 'session', c.session, 'host', c.host, 'pid', c.pid,
                          'program', c.program, 'fence', c.fence, 'error', c.error),
        null, c.fence);
    return interlock.claim_view(c, now_is);
end
$$;
