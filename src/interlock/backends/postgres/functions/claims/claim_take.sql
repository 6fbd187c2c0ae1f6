-- Claim a key if it is available. answer is claimed, known or ended; details is the state of a known claim.
create or replace function interlock.claim_take(
    p_namespace text, p_key text, p_owner text, p_session text, p_lease double precision, p_keep double precision,
    p_clock double precision,
    out answer text, out fence bigint, out expires_at double precision, out attempt integer, out details json
)
language plpgsql volatile
as $$
declare
    c interlock.claim;
    s interlock.session;
    now_is timestamptz := interlock.now_or(p_clock);
begin
    select * into s from interlock.session x where x.namespace = p_namespace and x.id = p_session;
    if not coalesce(s.expires_at > now_is, false) then
        answer := 'ended';
        return;
    end if;
    loop
        -- Waits until another transaction's insert of the same key is committed or rolled back.
        insert into interlock.claim (
            namespace, key, state, attempt, fence, owner, session, host, pid, program, claimed_at, expires_at, keep,
            kept_until)
        values (
            p_namespace, p_key, 'in progress', 1, 0, p_owner, p_session, s.host, s.pid, s.program, now_is,
            now_is + interlock.seconds(p_lease), p_keep, now_is + interlock.seconds(p_lease + p_keep))
        on conflict do nothing;
        if found then
            -- Drawn only now that the key is locked: an earlier number could be smaller than that of a claim that was
            -- made and forgotten meanwhile.
            perform interlock.durably();
            update interlock.claim k set fence = nextval('interlock.fence')
            where k.namespace = p_namespace and k.key = p_key
            returning 'claimed', k.fence, extract(epoch from k.expires_at), k.attempt
            into answer, fence, expires_at, attempt;
            return;
        end if;

        -- A key that is not available is answered without locks and writes.
        select * into c from interlock.claim k where k.namespace = p_namespace and k.key = p_key;
        continue when not found; -- it was removed between the two statements
        now_is := interlock.now_or(p_clock);
        if interlock.claim_open(c, now_is) or c.owner = p_owner then
            select * into c from interlock.claim k where k.namespace = p_namespace and k.key = p_key for no key update;
            continue when not found;
            now_is := interlock.now_or(p_clock);
            if interlock.claim_open(c, now_is) then
                perform interlock.durably();
                update interlock.claim k
                set state = 'in progress', attempt = case when c.kept_until <= now_is then 1 else c.attempt + 1 end,
                    fence = nextval('interlock.fence'), owner = p_owner, session = p_session,
                    host = s.host, pid = s.pid, program = s.program, claimed_at = now_is,
                    expires_at = now_is + interlock.seconds(p_lease), finished_at = null, retry_at = null, error = '',
                    result = null, keep = p_keep, kept_until = now_is + interlock.seconds(p_lease + p_keep)
                where k.namespace = p_namespace and k.key = p_key
                returning 'claimed', k.fence, extract(epoch from k.expires_at), k.attempt
                into answer, fence, expires_at, attempt;
                return;
            end if;
            if c.owner = p_owner and c.state = 'in progress' then
                perform interlock.durably();
                update interlock.claim k
                set expires_at = now_is + interlock.seconds(p_lease), keep = p_keep,
                    kept_until = now_is + interlock.seconds(p_lease + p_keep)
                where k.namespace = p_namespace and k.key = p_key
                returning 'claimed', k.fence, extract(epoch from k.expires_at), k.attempt
                into answer, fence, expires_at, attempt;
                return;
            end if;
        end if;
        answer := 'known';
        details := interlock.claim_view(c, now_is);
        return;
    end loop;
end
$$;
