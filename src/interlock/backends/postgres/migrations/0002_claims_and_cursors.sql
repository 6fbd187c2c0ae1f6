-- Held while state is 'in progress', until expires_at; expires_at is null once settled. As good as absent from
-- kept_until on, and removed some time after. Host, pid and program are the holder's: its session is forgotten sooner.
-- Keys are in the order of their code points, whatever the database's own order is.
create table interlock.claim (
    namespace  text not null,
    key        text collate "C" not null,
    state      text not null,
    attempt    integer not null,
    fence      bigint not null,
    owner      text not null,
    session    text not null,
    host       text not null,
    pid        integer not null,
    program    text not null,
    claimed_at timestamptz not null,
    expires_at timestamptz,
    settled_at timestamptz,
    retry_at   timestamptz,
    error      text not null default '',
    result     text,
    keep       double precision not null,
    kept_until timestamptz not null,
    primary key (namespace, key)
);

-- Not the namespace first: where nothing is known of the table yet, it would be taken for as good as the primary key.
create index claim_by_kept_until on interlock.claim (kept_until, namespace);

-- Which of its moves a cursor stands at.
create table interlock.cursor (
    namespace text not null,
    name      text collate "C" not null,
    version   bigint not null,
    primary key (namespace, name)
);

create table interlock.cursor_move (
    namespace text not null,
    name      text collate "C" not null,
    version   bigint not null,
    value     text not null,
    moved_at  timestamptz not null,
    moved_by  text not null,
    id        text not null,
    primary key (namespace, name, version)
);

-- When a claim in progress ends: with its lease or its session. Null if it is settled.
create function interlock.claim_ends_at(c interlock.claim) returns timestamptz
language sql stable
as $$
    select case when c.expires_at is not null
                then least(c.expires_at, coalesce(interlock.session_expiry(c.namespace, c.session), c.claimed_at)) end
$$;

-- Whether a key with this claim on it can be claimed: it is no longer kept, has failed and is due, or its holder died.
create function interlock.claim_open(c interlock.claim, p_now timestamptz) returns boolean
language sql stable
as $$
    select c.kept_until <= p_now
        or case c.state when 'in progress' then interlock.claim_ends_at(c) <= p_now
                        when 'failed' then c.retry_at <= p_now
                        else false end
$$;

create function interlock.claim_view(c interlock.claim, p_now timestamptz) returns json
language sql stable
as $$
    select json_build_object(
        'key', c.key, 'state', c.state, 'attempt', c.attempt, 'fence', c.fence, 'owner', c.owner, 'session', c.session,
        'host', c.host, 'pid', c.pid, 'program', c.program,
        'claimed_at', extract(epoch from c.claimed_at)::float8,
        'expires_at', extract(epoch from interlock.claim_ends_at(c))::float8,
        'settled_at', extract(epoch from c.settled_at)::float8,
        'retry_at', extract(epoch from c.retry_at)::float8,
        'error', c.error, 'result', c.result,
        'kept_until', extract(epoch from c.kept_until)::float8,
        'seen_at', extract(epoch from p_now)::float8)
$$;

-- Why an owner has no claim on a key: who has, in which state, and why its own was forgotten, if it was.
create function interlock.claim_refusal(p_namespace text, p_key text, p_owner text, p_now timestamptz) returns json
language sql stable
as $$
    select json_build_array(c.owner, c.state, (
        select max(f.why) from interlock.forced f where f.namespace = p_namespace and f.owner = p_owner))
    from (select) nothing
    left join interlock.claim c on c.namespace = p_namespace and c.key = p_key and c.kept_until > p_now
$$;

-- Take a claim if it can be had. answer is claimed, known or ended; details is how a known one stands.
create function interlock.claim_take(
    p_namespace text, p_key text, p_owner text, p_session text, p_lease double precision, p_keep double precision,
    p_given double precision,
    out answer text, out fence bigint, out expires_at double precision, out attempt integer, out details json
)
language plpgsql volatile
as $$
declare
    c interlock.claim;
    s interlock.session;
    now_is timestamptz := interlock.now_or(p_given);
begin
    select * into s from interlock.session x where x.namespace = p_namespace and x.id = p_session;
    if not coalesce(s.expires_at > now_is, false) then
        answer := 'ended';
        return;
    end if;
    loop
        -- Waits for another's insertion of the same key to be committed or undone.
        insert into interlock.claim (
            namespace, key, state, attempt, fence, owner, session, host, pid, program, claimed_at, expires_at, keep,
            kept_until)
        values (
            p_namespace, p_key, 'in progress', 1, 0, p_owner, p_session, s.host, s.pid, s.program, now_is,
            now_is + interlock.seconds(p_lease), p_keep, now_is + interlock.seconds(p_lease + p_keep))
        on conflict do nothing;
        if found then
            -- Drawn only now that the key is ours: one drawn before could be smaller than that of a claim which came
            -- and was forgotten meanwhile.
            perform interlock.durably();
            update interlock.claim k set fence = nextval('interlock.fence')
            where k.namespace = p_namespace and k.key = p_key
            returning 'claimed', k.fence, extract(epoch from k.expires_at), k.attempt
            into answer, fence, expires_at, attempt;
            return;
        end if;

        -- What cannot be had is answered without locking or writing anything.
        select * into c from interlock.claim k where k.namespace = p_namespace and k.key = p_key;
        continue when not found; -- it was removed between the two statements
        now_is := interlock.now_or(p_given);
        if interlock.claim_open(c, now_is) or c.owner = p_owner then
            select * into c from interlock.claim k where k.namespace = p_namespace and k.key = p_key for no key update;
            continue when not found;
            now_is := interlock.now_or(p_given);
            if interlock.claim_open(c, now_is) then
                perform interlock.durably();
                update interlock.claim k
                set state = 'in progress', attempt = case when c.kept_until <= now_is then 1 else c.attempt + 1 end,
                    fence = nextval('interlock.fence'), owner = p_owner, session = p_session,
                    host = s.host, pid = s.pid, program = s.program, claimed_at = now_is,
                    expires_at = now_is + interlock.seconds(p_lease), settled_at = null, retry_at = null, error = '',
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

-- Give a claim its lease again, each of the arrays' members one claim; refusal is null for those that were live.
create function interlock.claim_renew(
    p_namespace text, p_keys text[], p_owners text[], p_leases double precision[], p_given double precision
) returns table (owner text, expires_at double precision, refusal json)
language plpgsql volatile
as $$
declare
    now_is timestamptz;
begin
    perform interlock.durably();
    for i in 1 .. cardinality(p_owners) loop
        now_is := interlock.now_or(p_given);
        owner := p_owners[i];
        update interlock.claim c
        set expires_at = now_is + interlock.seconds(p_leases[i]),
            kept_until = now_is + interlock.seconds(p_leases[i] + c.keep)
        where c.namespace = p_namespace and c.key = p_keys[i] and c.owner = p_owners[i] and c.state = 'in progress'
          and c.expires_at > now_is
          and exists (
              select from interlock.session s
              where s.namespace = c.namespace and s.id = c.session and s.expires_at > now_is)
        returning extract(epoch from c.expires_at), null into expires_at, refusal;
        if not found then
            expires_at := null;
            refusal := interlock.claim_refusal(p_namespace, p_keys[i], p_owners[i], now_is);
        end if;
        return next;
    end loop;
end
$$;

-- Settle a claim as done or failed, also a late one if nobody claimed it since. answer is settled or refused; details
-- is then the refusal.
create function interlock.claim_settle(
    p_namespace text, p_key text, p_owner text, p_state text, p_result text, p_error text,
    p_retry_in double precision, p_keep double precision, p_given double precision,
    out answer text, out details json
)
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_given);
begin
    perform interlock.durably();
    update interlock.claim c
    set state = p_state, expires_at = null, settled_at = now_is, retry_at = now_is + interlock.seconds(p_retry_in),
        error = p_error, result = p_result,
        kept_until = now_is + interlock.seconds(coalesce(p_retry_in, 0) + p_keep)
    where c.namespace = p_namespace and c.key = p_key and c.owner = p_owner and c.state = 'in progress'
      and c.kept_until > now_is;
    if not found then
        perform from interlock.claim c
        where c.namespace = p_namespace and c.key = p_key and c.owner = p_owner and c.state = p_state
          and c.kept_until > now_is;
    end if;
    answer := case when found then 'settled' else 'refused' end;
    if answer = 'refused' then
        details := interlock.claim_refusal(p_namespace, p_key, p_owner, now_is);
    end if;
end
$$;

-- Several claims (kind c) and settlements (kind s) in one transaction, in the order given, which is that of their keys:
-- so two batches never wait for each other.
create function interlock.claim_batch(
    p_namespace text, p_kinds text[], p_keys text[], p_owners text[], p_sessions text[], p_leases double precision[],
    p_keeps double precision[], p_states text[], p_results text[], p_errors text[], p_retry_ins double precision[],
    p_given double precision
) returns table (answer text, fence bigint, expires_at double precision, attempt integer, details json)
language plpgsql volatile
as $$
begin
    for i in 1 .. cardinality(p_kinds) loop
        if p_kinds[i] = 'c' then
            select t.answer, t.fence, t.expires_at, t.attempt, t.details
            into answer, fence, expires_at, attempt, details
            from interlock.claim_take(
                p_namespace, p_keys[i], p_owners[i], p_sessions[i], p_leases[i], p_keeps[i], p_given) t;
        else
            select t.answer, null, null, null, t.details into answer, fence, expires_at, attempt, details
            from interlock.claim_settle(
                p_namespace, p_keys[i], p_owners[i], p_states[i], p_results[i], p_errors[i], p_retry_ins[i], p_keeps[i],
                p_given) t;
        end if;
        return next;
    end loop;
end
$$;

-- Remove a claim and tell its holder; null if there was none.
create function interlock.claim_forget(p_namespace text, p_key text, p_why text, p_given double precision) returns json
language plpgsql volatile
as $$
declare
    c interlock.claim;
    now_is timestamptz;
begin
    select * into c from interlock.claim k where k.namespace = p_namespace and k.key = p_key for update;
    now_is := interlock.now_or(p_given);
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
    return interlock.claim_view(c, now_is);
end
$$;

-- Claims that are still kept, by key: the one, or those that begin with the prefix. Walks along the primary key from the
-- first that may be meant, beginning after a key if one is given, and stops behind the last. Stable, so that all of it is
-- one snapshot.
create function interlock.claim_look(
    p_namespace text, p_key text, p_prefix text, p_state text, p_limit integer, p_after text, p_given double precision
) returns setof json
language plpgsql stable
as $$
declare
    now_is timestamptz := interlock.now_or(p_given);
    shown integer := 0;
    candidates cursor for
        select k as claim from interlock.claim k
        where k.namespace = p_namespace and k.key >= coalesce(p_key, p_prefix) and k.key > p_after
        order by k.key;
    c interlock.claim;
begin
    for candidate in candidates loop
        c := candidate.claim;
        exit when shown >= p_limit or c.key <> p_key or not starts_with(c.key, p_prefix);
        if c.kept_until > now_is and c.state = coalesce(p_state, c.state) then
            shown := shown + 1;
            return next interlock.claim_view(c, now_is);
        end if;
    end loop;
end
$$;

-- Remove a bounded number of claims whose time to be kept is over.
create function interlock.claim_sweep(p_namespace text, p_given double precision) returns integer
language plpgsql volatile
set lock_timeout = '1s'
as $$
declare
    removed integer;
    now_is timestamptz := interlock.now_or(p_given);
begin
    with over as (
        select c.key from interlock.claim c
        where c.namespace = p_namespace and c.kept_until <= now_is
        order by c.kept_until limit 1000 for update skip locked
    )
    delete from interlock.claim c using over where c.namespace = p_namespace and c.key = over.key;
    get diagnostics removed = row_count;
    return removed;
end
$$;

-- Move a cursor from the version expected, 0 if there is none. Found done already if the same id did it before.
create function interlock.cursor_go(
    p_namespace text, p_name text, p_expected bigint, p_value text, p_id text, p_by text, p_kept integer,
    p_given double precision,
    out moved boolean, out at_version bigint, out value text, out moved_at double precision, out moved_by text
)
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    if p_expected = 0 then
        insert into interlock.cursor as c (namespace, name, version)
        values (p_namespace, p_name, nextval('interlock.fence')) on conflict do nothing
        returning c.version into at_version;
    else
        update interlock.cursor c set version = nextval('interlock.fence')
        where c.namespace = p_namespace and c.name = p_name and c.version = p_expected
        returning c.version into at_version;
    end if;
    moved := found;
    if moved then
        insert into interlock.cursor_move as m (namespace, name, version, value, moved_at, moved_by, id)
        values (p_namespace, p_name, at_version, p_value, interlock.now_or(p_given), p_by, p_id)
        returning m.value, extract(epoch from m.moved_at), m.moved_by into value, moved_at, moved_by;
        delete from interlock.cursor_move m
        where m.namespace = p_namespace and m.name = p_name
          and m.version <= (
              select x.version from interlock.cursor_move x
              where x.namespace = p_namespace and x.name = p_name
              order by x.version desc limit 1 offset p_kept);
        return;
    end if;
    select m.version, m.value, extract(epoch from m.moved_at), m.moved_by into at_version, value, moved_at, moved_by
    from interlock.cursor_move m
    where m.namespace = p_namespace and m.name = p_name and m.id = p_id;
    moved := found;
    if not moved then
        select m.version, m.value, extract(epoch from m.moved_at), m.moved_by into at_version, value, moved_at, moved_by
        from interlock.cursor c
        join interlock.cursor_move m on m.namespace = c.namespace and m.name = c.name and m.version = c.version
        where c.namespace = p_namespace and c.name = p_name;
    end if;
end
$$;

-- Remove a cursor and its history; no row if there was none.
create function interlock.cursor_forget(p_namespace text, p_name text)
returns table (name text, value text, version bigint, moved_at double precision, moved_by text)
language plpgsql volatile
as $$
begin
    delete from interlock.cursor c where c.namespace = p_namespace and c.name = p_name
    returning c.version into cursor_forget.version;
    if not found then
        return;
    end if;
    perform interlock.durably();
    return query
        select m.name::text, m.value, m.version, extract(epoch from m.moved_at)::float8, m.moved_by
        from interlock.cursor_move m
        where m.namespace = p_namespace and m.name = p_name and m.version = cursor_forget.version;
    delete from interlock.cursor_move m where m.namespace = p_namespace and m.name = p_name;
end
$$;
