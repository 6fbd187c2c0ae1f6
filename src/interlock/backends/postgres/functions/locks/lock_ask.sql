-- Acquire a key or queue for it. answer is granted, waiting, busy, deadlocked or ended.
create or replace function interlock.lock_ask(
    p_namespace text, p_key text, p_owner text, p_caller text, p_session text, p_ttl double precision,
    p_wait double precision, p_nested boolean, p_turn double precision, p_clock double precision,
    out answer text, out fence bigint, out expires_at double precision, out recheck_in double precision,
    out details jsonb
)
language plpgsql volatile
as $$
declare
    l interlock.lock;
    now_is timestamptz;
    holder_session interlock.session;
    ends_at timestamptz;
    live boolean := false;
    free_since timestamptz;
    ahead integer := 0;
begin
    loop
        -- Not "for update": a holder's fenced transaction must not block callers that only queue.
        select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for no key update;
        exit when found;
        insert into interlock.lock (namespace, key, free_since)
        values (p_namespace, p_key, 'epoch') on conflict do nothing;
    end loop;
    now_is := interlock.now_or(p_clock);

    if not coalesce(interlock.session_expiry(p_namespace, p_session) > now_is, false) then
        answer := 'ended';
        return;
    end if;

    free_since := l.free_since;
    if l.owner is not null then
        select * into holder_session from interlock.session s where s.namespace = p_namespace and s.id = l.session;
        ends_at := least(l.expires_at, coalesce(holder_session.expires_at, 'epoch'));
        live := ends_at > now_is;
        free_since := greatest(ends_at, l.granted_at);
        if live and l.owner = p_owner then
            perform interlock.durably();
            update interlock.lock k set expires_at = now_is + interlock.seconds(p_ttl)
            where k.namespace = p_namespace and k.key = p_key returning extract(epoch from k.expires_at) into expires_at;
            answer := 'granted';
            fence := l.fence;
            return;
        end if;
        if not live then
            -- The lease can be taken over, but only after its last fenced transaction has ended. That is not waited for
            -- here: it would block everything else on this connection.
            begin
                perform from interlock.lock k where k.namespace = p_namespace and k.key = p_key for update nowait;
            exception when lock_not_available then
                live := true;
                ends_at := now_is + interval '1 second';
            end;
        end if;
    end if;

    if live then
        recheck_in := extract(epoch from ends_at - now_is);
    else
        free_since := least(free_since, now_is); -- should the clock have gone back
        perform interlock.lock_drop_dead_waiters(p_namespace, p_key, now_is);
        select count(*) into ahead from interlock.waiter w
        where w.namespace = p_namespace and w.key = p_key
          and w.ticket < coalesce((select mine.ticket from interlock.waiter mine
                                   where mine.namespace = p_namespace and mine.owner = p_owner), 9223372036854775807);
        if now_is >= free_since + interlock.seconds(ahead * p_turn) then
            perform interlock.durably();
            delete from interlock.waiter w where w.namespace = p_namespace and w.owner = p_owner;
            fence := nextval('interlock.fence');
            update interlock.lock k
            set owner = p_owner, caller = p_caller, session = p_session, fence = lock_ask.fence, granted_at = now_is,
                expires_at = now_is + interlock.seconds(p_ttl), free_since = null
            where k.namespace = p_namespace and k.key = p_key returning extract(epoch from k.expires_at) into expires_at;
            answer := 'granted';
            return;
        end if;
        recheck_in := extract(epoch from free_since + interlock.seconds(ahead * p_turn) - now_is);
        perform interlock.lock_notify_next(p_namespace, p_key, '', now_is);
    end if;

    if p_wait = 0 then
        answer := 'busy';
        if live then
            details := interlock.lock_holder(l, holder_session);
        end if;
        return;
    end if;
    select q.answer, q.details into answer, details
    from interlock.lock_queue(p_namespace, p_key, p_owner, p_caller, p_session, p_ttl, p_wait, p_nested, now_is) q;
end
$$;
