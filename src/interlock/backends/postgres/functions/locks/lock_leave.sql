-- Release a lease or leave the queue. If the next in the queue belongs to the same session, the key is granted to it at
-- once: fence and expires_at are then those of the next one. A release that is alone (p_alone) and grants nothing does
-- not wait for the disk: if a crash of the server loses it, the process repeats it when it reconnects.
create or replace function interlock.lock_leave(
    p_namespace text, p_key text, p_owner text, p_session text, p_alone boolean, p_clock double precision,
    out held boolean, out why text, out next_owner text, out fence bigint, out expires_at double precision
)
language plpgsql volatile
as $$
declare
    l interlock.lock;
    now_is timestamptz;
    ends_at timestamptz;
    first interlock.waiter;
begin
    held := false;
    why := 'it had expired';
    -- A holder's fenced transaction must not block callers that only leave the queue. It does block the holder's own
    -- release, which has to come after it.
    perform from interlock.lock k where k.namespace = p_namespace and k.key = p_key and k.owner = p_owner;
    if found then
        select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for update;
    else
        select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for no key update;
    end if;
    if l.key is null then
        return;
    end if;
    now_is := interlock.now_or(p_clock);
    if l.owner is not null then
        ends_at := least(l.expires_at, coalesce(interlock.session_expiry(p_namespace, l.session), 'epoch'));
    end if;

    if l.owner = p_owner then
        held := ends_at > now_is;
        if held then
            why := '';
            select w.* into first from interlock.waiter w
            join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > now_is
            where w.namespace = p_namespace and w.key = p_key and (w.gives_up_at is null or w.gives_up_at > now_is)
            order by w.ticket limit 1;
        end if;
        if first.session = p_session then
            perform interlock.durably();
            delete from interlock.waiter w where w.ticket = first.ticket;
            next_owner := first.owner;
            fence := nextval('interlock.fence');
            update interlock.lock k
            set owner = first.owner, caller = first.caller, session = first.session, fence = lock_leave.fence,
                granted_at = now_is, expires_at = now_is + interlock.seconds(first.ttl), ended_owner = l.owner,
                ended_why = 'released'
            where k.namespace = p_namespace and k.key = p_key
            returning extract(epoch from k.expires_at) into expires_at;
            return;
        end if;
        update interlock.lock k
        set owner = null, ended_owner = l.owner, ended_why = case when held then 'released' else why end,
            free_since = case when held then now_is else greatest(ends_at, l.granted_at) end
        where k.namespace = p_namespace and k.key = p_key;
    else
        delete from interlock.waiter w where w.namespace = p_namespace and w.owner = p_owner;
        if l.ended_owner = p_owner then
            why := l.ended_why;
        end if;
        if ends_at > now_is then
            if l.session = p_session then
                next_owner := l.owner; -- it may have been handed the key by a release whose answer was lost
            end if;
            return;
        end if;
    end if;
    if p_alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if first.session is not null or not held then
        next_owner := interlock.lock_notify_next(p_namespace, p_key, p_session, now_is);
    end if;
end
$$;
