create table interlock.session (
    namespace  text not null,
    id         text not null,
    host       text not null,
    pid        integer not null,
    program    text not null,
    begun_at   timestamptz not null,
    expires_at timestamptz not null,
    -- Since when the event loop of its process has been blocked, and by what; null while it runs.
    blocked_since timestamptz,
    blocked_by    text not null default '',
    primary key (namespace, id)
) with (fillfactor = 50);

create sequence interlock.fence;

-- The server's timeline when fences were last drawn. A fail-over, or a restored backup, begins a new one.
create table interlock.timeline (
    number bigint not null,
    single boolean primary key default true check (single)
);

-- Move the sequences ahead when the server's timeline has changed: on the new one they may stand before numbers that were
-- handed out on the old one. A connection calls it before anything else, so that no number is drawn before. 2^32 for each
-- timeline is more than can have been lost. Runs with the rights of the schema's owner, as only that one may set them.
create function interlock.follow_timeline() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    current bigint := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
    known bigint := (select t.number from interlock.timeline t);
    ahead bigint;
begin
    if known = current then
        return;
    end if;
    insert into interlock.timeline (number) values (current) on conflict do nothing;
    select t.number into known from interlock.timeline t for update;
    if known <> current then
        ahead := greatest(current - known, 1) << 32;
        perform setval('interlock.fence', nextval('interlock.fence') + ahead);
        perform setval('interlock.job_id', nextval('interlock.job_id') + ahead);
        update interlock.timeline set number = current;
    end if;
end
$$;

-- A key that is or was lately held or awaited. owner is null while it is free. Nothing but the primary key is indexed,
-- so that every change of a row stays on its page.
create table interlock.lock (
    namespace   text not null,
    key         text not null,
    owner       text,
    party       text,
    session     text,
    fence       bigint,
    granted_at  timestamptz,
    expires_at  timestamptz,
    free_since  timestamptz,
    ended_owner text,
    ended_why   text,
    primary key (namespace, key)
) with (fillfactor = 50);

create table interlock.waiter (
    ticket      bigint generated always as identity primary key,
    namespace   text not null,
    key         text not null,
    owner       text not null,
    party       text not null,
    session     text not null,
    ttl         double precision not null,
    asked_at    timestamptz not null,
    gives_up_at timestamptz,
    unique (namespace, owner)
);

-- Leases taken by force, for holders that hear no messages. Kept for an hour, or until their session ends.
create table interlock.forced (
    namespace text not null,
    session   text not null,
    owner     text not null,
    why       text not null,
    at        timestamptz not null,
    primary key (namespace, session, owner)
);

create index waiter_by_key on interlock.waiter (namespace, key, ticket);
create index waiter_by_session on interlock.waiter (session, namespace);
create index waiter_by_party on interlock.waiter (party, namespace);

-- The clock that decides; tests pass a time of their own.
create function interlock.now_or(given double precision) returns timestamptz
language sql volatile
as $$ select coalesce(to_timestamp(given), clock_timestamp()) $$;

create function interlock.seconds(p_seconds double precision) returns interval
language sql immutable
as $$ select make_interval(secs => p_seconds) $$;

create function interlock.session_expiry(p_namespace text, p_session text) returns timestamptz
language sql stable
as $$ select expires_at from interlock.session where namespace = p_namespace and id = p_session $$;

-- Forget waiters of a key whose time is over or whose session has ended. The caller holds the key's row.
create function interlock.lock_drop_dead_waiters(p_namespace text, p_key text, p_now timestamptz) returns void
language sql volatile
as $$
    delete from interlock.waiter w
    where w.namespace = p_namespace and w.key = p_key
      and (w.gives_up_at <= p_now
           or not exists (
               select from interlock.session s
               where s.namespace = w.namespace and s.id = w.session and s.expires_at > p_now))
$$;

-- Tell the first live waiter of a free key, unless it is the leaver's own; says who it is.
create function interlock.lock_pass_on(p_namespace text, p_key text, p_leaver text, p_now timestamptz) returns text
language plpgsql volatile
as $$
declare
    first record;
begin
    perform interlock.lock_drop_dead_waiters(p_namespace, p_key, p_now);
    select w.owner, w.session into first
    from interlock.waiter w where w.namespace = p_namespace and w.key = p_key
    order by w.ticket limit 1;
    if not found then
        return null;
    end if;
    if first.session <> p_leaver then
        perform pg_notify('interlock_' || first.session, 'turn ' || first.owner);
    end if;
    return first.owner;
end
$$;

create function interlock.lock_holder(l interlock.lock, s interlock.session) returns jsonb
language sql immutable
as $$
    select jsonb_build_object(
        'owner', l.owner, 'party', l.party, 'session', l.session, 'host', s.host, 'pid', s.pid, 'program', s.program,
        'fence', l.fence, 'granted_at', extract(epoch from l.granted_at),
        'expires_at', extract(epoch from least(l.expires_at, s.expires_at)))
$$;

-- The cycle of waits that p_party would close by waiting for p_key, as [party, key, holder] triples; null if none.
create function interlock.lock_cycle(p_namespace text, p_party text, p_key text, p_now timestamptz) returns jsonb
language sql volatile
as $$
    with recursive held as not materialized (
        select l.key, l.party
        from interlock.lock l
        join interlock.session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > p_now
        where l.namespace = p_namespace and l.owner is not null and l.expires_at > p_now
    ),
    walk (holder, seen, path) as (
        select h.party, array[p_party], jsonb_build_array(jsonb_build_array(p_party, p_key, h.party))
        from held h where h.key = p_key
        union all
        select h.party, walk.seen || walk.holder, walk.path || jsonb_build_array(jsonb_build_array(w.party, w.key, h.party))
        from walk
        join interlock.waiter w on w.namespace = p_namespace and w.party = walk.holder
            and (w.gives_up_at is null or w.gives_up_at > p_now)
        join interlock.session ws on ws.namespace = p_namespace and ws.id = w.session and ws.expires_at > p_now
        join held h on h.key = w.key
        where walk.holder <> all (walk.seen)
    )
    select path from walk where holder = p_party limit 1
$$;

-- What must survive a crash of the server waits for the disk, also where the server's default is not to.
create function interlock.durably() returns void
language plpgsql volatile
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
end
$$;

create function interlock.session_begin(
    p_namespace text, p_id text, p_host text, p_pid integer, p_program text, p_seconds double precision,
    p_given double precision
) returns void
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    insert into interlock.session (namespace, id, host, pid, program, begun_at, expires_at)
    values (p_namespace, p_id, p_host, p_pid, p_program, interlock.now_or(p_given),
            interlock.now_or(p_given) + interlock.seconds(p_seconds))
    on conflict (namespace, id) do nothing;
end
$$;

create function interlock.session_renew(
    p_namespace text, p_id text, p_seconds double precision, p_given double precision
) returns boolean
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    update interlock.session s set expires_at = interlock.now_or(p_given) + interlock.seconds(p_seconds)
    where s.namespace = p_namespace and s.id = p_id and s.expires_at > interlock.now_or(p_given);
    return found;
end
$$;

-- Record that the event loop of a session's process has been blocked for so many seconds, or (null) runs again.
create function interlock.session_note_blocked(
    p_namespace text, p_id text, p_seconds double precision, p_by text, p_given double precision
) returns void
language sql volatile
as $$
    update interlock.session s
    set blocked_since = interlock.now_or(p_given) - interlock.seconds(p_seconds), blocked_by = p_by
    where s.namespace = p_namespace and s.id = p_id
$$;

-- Take a key or queue for it. answer is granted, waiting, busy, deadlocked or ended.
create function interlock.lock_ask(
    p_namespace text, p_key text, p_owner text, p_party text, p_session text, p_ttl double precision,
    p_wait double precision, p_nested boolean, p_claim double precision, p_given double precision,
    out answer text, out fence bigint, out expires_at double precision, out look_again double precision,
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
    queued boolean := false;
    cycle jsonb;
begin
    loop
        -- Not "for update": a holder's fenced transaction must not hinder those who only queue.
        select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for no key update;
        exit when found;
        insert into interlock.lock (namespace, key, free_since)
        values (p_namespace, p_key, 'epoch') on conflict do nothing;
    end loop;
    now_is := interlock.now_or(p_given);

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
            -- To be taken over from the dead, but not before its last fenced transaction has ended. Nobody waits for
            -- that here: it would hold up everything else on this connection.
            begin
                perform from interlock.lock k where k.namespace = p_namespace and k.key = p_key for update nowait;
            exception when lock_not_available then
                live := true;
                ends_at := now_is + interval '1 second';
            end;
        end if;
    end if;

    if live then
        look_again := extract(epoch from ends_at - now_is);
    else
        free_since := least(free_since, now_is); -- should the clock have gone back
        perform interlock.lock_drop_dead_waiters(p_namespace, p_key, now_is);
        select count(*) into ahead from interlock.waiter w
        where w.namespace = p_namespace and w.key = p_key
          and w.ticket < coalesce((select mine.ticket from interlock.waiter mine
                                   where mine.namespace = p_namespace and mine.owner = p_owner), 9223372036854775807);
        if now_is >= free_since + interlock.seconds(ahead * p_claim) then
            perform interlock.durably();
            delete from interlock.waiter w where w.namespace = p_namespace and w.owner = p_owner;
            fence := nextval('interlock.fence');
            update interlock.lock k
            set owner = p_owner, party = p_party, session = p_session, fence = lock_ask.fence, granted_at = now_is,
                expires_at = now_is + interlock.seconds(p_ttl), free_since = null
            where k.namespace = p_namespace and k.key = p_key returning extract(epoch from k.expires_at) into expires_at;
            answer := 'granted';
            return;
        end if;
        look_again := extract(epoch from free_since + interlock.seconds(ahead * p_claim) - now_is);
        perform interlock.lock_pass_on(p_namespace, p_key, '', now_is);
    end if;

    if p_wait = 0 then
        answer := 'busy';
        if live then
            details := interlock.lock_holder(l, holder_session);
        end if;
        return;
    end if;
    queued := exists (select from interlock.waiter w where w.namespace = p_namespace and w.owner = p_owner);
    if not queued and p_nested then
        -- One wait at a time may be added to the graph by those who hold something, or two halves of a cycle could
        -- each miss the other.
        perform pg_advisory_xact_lock(1229870156, hashtext(p_namespace));
        cycle := interlock.lock_cycle(p_namespace, p_party, p_key, now_is);
        if cycle is not null then
            answer := 'deadlocked';
            details := cycle;
            return;
        end if;
    end if;
    if not queued then
        perform interlock.durably();
        insert into interlock.waiter (namespace, key, owner, party, session, ttl, asked_at, gives_up_at)
        values (p_namespace, p_key, p_owner, p_party, p_session, p_ttl, now_is, now_is + interlock.seconds(p_wait));
    end if;
    answer := 'waiting';
end
$$;

-- Give a lease its ttl again, each of the arrays' members one lease; why is null for those that were live.
create function interlock.lock_renew(
    p_namespace text, p_keys text[], p_owners text[], p_ttls double precision[], p_given double precision
) returns table (owner text, expires_at double precision, why text)
language plpgsql volatile
as $$
declare
    i integer;
    now_is timestamptz;
begin
    perform interlock.durably();
    for i in 1 .. cardinality(p_owners) loop
        now_is := interlock.now_or(p_given);
        owner := p_owners[i];
        update interlock.lock l set expires_at = now_is + interlock.seconds(p_ttls[i])
        where l.namespace = p_namespace and l.key = p_keys[i] and l.owner = p_owners[i] and l.expires_at > now_is
          and exists (
              select from interlock.session s
              where s.namespace = l.namespace and s.id = l.session and s.expires_at > now_is)
        returning extract(epoch from l.expires_at), null into expires_at, why;
        if not found then
            expires_at := null;
            select coalesce(max(l.ended_why), 'it had expired') into why from interlock.lock l
            where l.namespace = p_namespace and l.key = p_keys[i] and l.ended_owner = p_owners[i];
        end if;
        return next;
    end loop;
end
$$;

-- Give up a lease or a place in the queue. If the next in the queue is of the leaver's own session, which hears of it
-- first and for certain, the key is handed over at once: fence and expires_at are then the next one's. A departure that
-- is alone (p_alone) and hands nothing over does not wait for the disk: if a crash of the server forgets it, it is given
-- up again when its process reconnects.
create function interlock.lock_leave(
    p_namespace text, p_key text, p_owner text, p_session text, p_alone boolean, p_given double precision,
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
    -- A holder's fenced transaction must not hinder those who only leave the queue; it does hinder the holder's own
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
    now_is := interlock.now_or(p_given);
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
            set owner = first.owner, party = first.party, session = first.session, fence = lock_leave.fence,
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
        next_owner := interlock.lock_pass_on(p_namespace, p_key, p_session, now_is);
    end if;
end
$$;

-- Several requests (kind a) and departures (kind l) in one transaction, in the order given, which is that of their keys:
-- so two batches never wait for each other.
create function interlock.lock_batch(
    p_namespace text, p_kinds text[], p_keys text[], p_owners text[], p_parties text[], p_sessions text[],
    p_ttls double precision[], p_waits double precision[], p_nested boolean[], p_claim double precision,
    p_given double precision
) returns table (
    answer text, fence bigint, expires_at double precision, look_again double precision, details jsonb, why text,
    next_owner text
)
language plpgsql volatile
as $$
declare
    held boolean;
begin
    for i in 1 .. cardinality(p_kinds) loop
        if p_kinds[i] = 'a' then
            select a.answer, a.fence, a.expires_at, a.look_again, a.details, null, null
            into answer, fence, expires_at, look_again, details, why, next_owner
            from interlock.lock_ask(
                p_namespace, p_keys[i], p_owners[i], p_parties[i], p_sessions[i], p_ttls[i], p_waits[i], p_nested[i],
                p_claim, p_given) a;
        else
            select l.held, l.why, l.next_owner, l.fence, l.expires_at into held, why, next_owner, fence, expires_at
            from interlock.lock_leave(p_namespace, p_keys[i], p_owners[i], p_sessions[i], false, p_given) l;
            answer := case when held then 'left' else 'absent' end;
        end if;
        return next;
    end loop;
end
$$;

-- Take a key from its holder; null if nobody live held it.
create function interlock.lock_force(p_namespace text, p_key text, p_why text, p_given double precision) returns jsonb
language plpgsql volatile
as $$
declare
    l interlock.lock;
    s interlock.session;
    now_is timestamptz;
begin
    select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for update;
    now_is := interlock.now_or(p_given);
    select * into s from interlock.session x where x.namespace = p_namespace and x.id = l.session;
    if l.owner is null or s.id is null or least(l.expires_at, s.expires_at) <= now_is then
        return null;
    end if;
    update interlock.lock k
    set owner = null, ended_owner = l.owner, ended_why = p_why, free_since = now_is
    where k.namespace = p_namespace and k.key = p_key;
    insert into interlock.forced (namespace, session, owner, why, at)
    values (p_namespace, l.session, l.owner, p_why, now_is) on conflict do nothing;
    perform pg_notify('interlock_' || l.session, left('lost ' || l.owner || ' ' || p_why, 2000));
    perform interlock.lock_pass_on(p_namespace, p_key, '', now_is);
    return interlock.lock_holder(l, s);
end
$$;

-- For writes in anybody's own transaction: fails unless the lease is live, and keeps it from passing on until the
-- transaction ends.
create function interlock.lock_guard(
    p_namespace text, p_key text, p_owner text, p_fence bigint, p_given double precision default null
) returns void
language plpgsql volatile
set lock_timeout = '4s'
as $$
declare
    l interlock.lock;
begin
    select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for key share;
    if not found or l.owner is distinct from p_owner or l.fence is distinct from p_fence
       or l.expires_at <= interlock.now_or(p_given)
       or not coalesce(interlock.session_expiry(p_namespace, l.session) > interlock.now_or(p_given), false) then
        raise exception 'the lease on % with fence % is not live', p_key, p_fence using errcode = 'IL001';
    end if;
end
$$;

-- The session's leases end with it. No key's row is locked for that: a fenced transaction somewhere must not keep a
-- session from ending.
create function interlock.session_end(p_namespace text, p_id text, p_given double precision) returns void
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_given);
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
        perform interlock.lock_pass_on(p_namespace, freed.key, p_id, now_is);
    end loop;
    delete from interlock.forced f where f.namespace = p_namespace and f.session = p_id;
end
$$;

-- Remove a bounded number of traces of sessions that ended more than an hour ago, and of keys that are long idle.
create function interlock.session_sweep(p_namespace text, p_given double precision) returns integer
language plpgsql volatile
set lock_timeout = '1s'
as $$
declare
    gone record;
    swept integer := 0;
    removed integer;
    now_is timestamptz := interlock.now_or(p_given);
begin
    for gone in
        select s.id from interlock.session s
        where s.namespace = p_namespace and s.expires_at < now_is - interval '1 hour'
        order by s.id limit 100 for update skip locked
    loop
        perform interlock.session_end(p_namespace, gone.id, p_given);
        with held as (
            select l.namespace, l.key from interlock.lock l
            where l.namespace = p_namespace and l.session = gone.id and l.owner is not null for update skip locked
        )
        update interlock.lock l
        set owner = null, ended_owner = l.owner, ended_why = 'its session ended', free_since = now_is
        from held where l.namespace = held.namespace and l.key = held.key;
        delete from interlock.session s
        where s.namespace = p_namespace and s.id = gone.id
          and not exists (
              select from interlock.lock l
              where l.namespace = p_namespace and l.session = gone.id and l.owner is not null);
        swept := swept + 1;
    end loop;
    with idle as (
        select l.namespace, l.key from interlock.lock l
        where l.namespace = p_namespace and l.owner is null and l.free_since < now_is - interval '1 minute'
          and not exists (select from interlock.waiter w where w.namespace = l.namespace and w.key = l.key)
        limit 10000 for update skip locked
    )
    delete from interlock.lock l using idle where l.namespace = idle.namespace and l.key = idle.key;
    get diagnostics removed = row_count;
    delete from interlock.forced f where f.namespace = p_namespace and f.at < now_is - interval '1 hour';
    return swept + removed;
end
$$;
