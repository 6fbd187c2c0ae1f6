-- Times and spans of limits are whole microseconds, so that "exactly so far apart" is exact.

-- The row to lock before anything on a key is counted or changed. free_since: since when a key with a line has had room.
create table interlock.limit_key (
    namespace  text not null,
    key        text collate "C" not null,
    free_since bigint not null default 0,
    primary key (namespace, key)
) with (fillfactor = 50);

create sequence interlock.limit_ticket;

-- A reservation: one row for each limit it is under, equal but for key, most and per (0 for slots). waits: 0 for nothing,
-- 1 in the line of the key place, 2 for its time, which the pace of place decided. The ticket is its place in every
-- line. Whoever changes one has locked all of its keys, so that a key's rows stand still while that key is locked.
create table interlock.limit_use (
    namespace  text not null,
    key        text collate "C" not null,
    ticket     bigint not null,
    owner      text not null,
    party      text not null,
    session    text not null,
    most       integer not null,
    per        bigint not null,
    asked_at   bigint not null,
    last_asked bigint not null,
    at         bigint not null,
    started    boolean not null,
    waits      smallint not null,
    place      text not null,
    primary key (namespace, owner, key)
) with (fillfactor = 70);

create index limit_use_by_key on interlock.limit_use (namespace, key, ticket);
create index limit_use_by_session on interlock.limit_use (session, namespace);

-- Starts that count for a pace, whatever became of their processes.
create table interlock.limit_start (
    namespace    text not null,
    key          text collate "C" not null,
    at           bigint not null,
    ticket       bigint not null,
    counts_until bigint not null,
    owner        text not null,
    party        text not null,
    session      text not null,
    host         text not null,
    pid          integer not null,
    program      text not null,
    most         integer not null,
    per          bigint not null,
    asked_at     bigint not null,
    primary key (namespace, key, at, ticket)
);

create index limit_start_by_end on interlock.limit_start (counts_until, namespace);

create function interlock.micros(p_at timestamptz) returns bigint
language sql stable
as $$ select round(extract(epoch from p_at) * 1000000)::bigint $$;

-- A key's uses with what decides whether they count: whether their sessions live, and whether somebody still comes for
-- them, as is so if they were asked for or planned since p_fresh.
create function interlock.limit_uses(p_namespace text, p_key text, p_now timestamptz, p_fresh bigint)
returns table (
    ticket bigint, owner text, session text, most integer, per bigint, at bigint, started boolean, in_line boolean,
    ends_at timestamptz, dead boolean, live boolean
)
language sql stable
as $$
    select u.ticket, u.owner, u.session, u.most, u.per, u.at, u.started, u.waits = 1 and u.place = u.key, s.expires_at,
           s.expires_at is null or s.expires_at <= p_now,
           coalesce(s.expires_at > p_now, false)
           and (u.started or greatest(u.last_asked, u.at) >= p_fresh)
    from interlock.limit_use u
    left join interlock.session s on s.namespace = u.namespace and s.id = u.session
    where u.namespace = p_namespace and u.key = p_key
$$;

-- Lock keys, in the order given, which is the same for all: so two never wait for each other.
create function interlock.limit_lock(p_namespace text, p_keys text[]) returns void
language plpgsql volatile
as $$
declare
    wanted text;
begin
    foreach wanted in array p_keys loop
        loop
            perform from interlock.limit_key k where k.namespace = p_namespace and k.key = wanted for update;
            exit when found;
            -- Also if a sweep has just removed it.
            insert into interlock.limit_key (namespace, key) values (p_namespace, wanted) on conflict do nothing;
        end loop;
    end loop;
end
$$;

-- Forget a key's reservations whose sessions have ended. If that makes room, it has been there since the death that made
-- it, or since the last one if their going also changed how many slots there are. The caller has locked the key;
-- reservations of the dead never come back, so their other keys do not matter.
create function interlock.limit_bury(p_namespace text, p_key text, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
    was record;
    remains record;
begin
    select min(u.most) filter (where u.per = 0) as slots, count(*) filter (where u.started) as started,
           coalesce(bool_or(u.in_line), false) as awaited, max(u.ends_at) filter (where u.dead) as last_death,
           array_agg(u.ends_at order by u.ends_at nulls first) filter (where u.dead and u.started) as deaths
    into was from interlock.limit_uses(p_namespace, p_key, p_now, 0) u;
    delete from interlock.limit_use u
    where u.namespace = p_namespace and u.key = p_key
      and not exists (
          select from interlock.session s
          where s.namespace = u.namespace and s.id = u.session and s.expires_at > p_now);
    if was.awaited and was.started >= was.slots then
        select min(u.most) filter (where u.per = 0) as slots, count(*) filter (where u.started) as started
        into remains from interlock.limit_use u where u.namespace = p_namespace and u.key = p_key;
        if remains.slots is null or remains.started < remains.slots then
            update interlock.limit_key k
            set free_since = interlock.micros(coalesce(
                case when remains.slots = was.slots then was.deaths[was.started - was.slots + 1] else was.last_death end,
                'epoch'))
            where k.namespace = p_namespace and k.key = p_key;
        end if;
    end if;
end
$$;

-- Tell the first in a key's line, as many as there is room for; those of the leaver's own session are returned instead.
create function interlock.limit_pass_on(
    p_namespace text, p_key text, p_leaver text, p_now timestamptz, p_fresh bigint
) returns text[]
language plpgsql volatile
as $$
declare
    free bigint;
    next_one record;
    own text[] := '{}';
begin
    select coalesce(min(u.most) filter (where u.per = 0), 1000) - count(*) filter (where u.started) into free
    from interlock.limit_uses(p_namespace, p_key, p_now, p_fresh) u where u.live;
    if free > 0 then
        for next_one in
            select u.owner, u.session from interlock.limit_uses(p_namespace, p_key, p_now, p_fresh) u
            where u.live and u.in_line order by u.ticket limit least(free, 1000)
        loop
            if next_one.session = p_leaver then
                own := own || next_one.owner;
            else
                perform pg_notify('interlock_' || next_one.session, 'turn ' || next_one.owner);
            end if;
        end loop;
    end if;
    return own;
end
$$;

-- The first time from p_at on that makes no p_most + 1 starts of a key lie within less than p_per, counting those that
-- were and those planned by who asked before p_ticket. Windows of p_most times are visited in order; one that leaves no
-- room leaves none up to p_per after its first time, so the candidate moves there.
create function interlock.limit_fit(
    p_namespace text, p_key text, p_most integer, p_per bigint, p_at bigint, p_ticket bigint, p_now timestamptz,
    p_fresh bigint
) returns bigint
language plpgsql volatile
as $$
declare
    times bigint[];
    i integer := 1;
    fit bigint := p_at;
begin
    select array_agg(t.at order by t.at) into times
    from (
        select s.at from interlock.limit_start s
        where s.namespace = p_namespace and s.key = p_key and s.at > p_at - p_per
        union all
        select u.at from interlock.limit_uses(p_namespace, p_key, p_now, p_fresh) u
        where u.live and not u.started and u.ticket < p_ticket and u.at > p_at - p_per
    ) t;
    while i + p_most - 1 <= cardinality(times) loop
        if greatest(times[i + p_most - 1], fit) - least(times[i], fit) < p_per then
            fit := times[i] + p_per;
        elsif times[i] >= fit then
            exit;
        end if;
        i := i + 1;
    end loop;
    return fit;
end
$$;

-- Make a reservation if it is not there yet, and start it if that was asked for and its turn has come. answer is started,
-- waiting (for its time, or in line if begins_at is null), ended or full.
create function interlock.limit_ask(
    p_namespace text, p_owner text, p_party text, p_session text, p_keys text[], p_mosts integer[], p_pers bigint[],
    p_start boolean, p_claim bigint, p_stale bigint, p_full integer, p_alone boolean, p_given double precision,
    out answer text, out begins_at bigint, out waits_for text, out ahead integer, out look_again double precision,
    out differs text
)
language plpgsql volatile
as $$
declare
    now_is timestamptz;
    now_us bigint;
    fresh bigint;
    me record;
    mine boolean;
    s record;
    figure record;
    keys text[] := p_keys;
    mosts integer[] := p_mosts;
    pers bigint[] := p_pers;
    longest bigint[];      -- per key, of all who know it
    pace_keys text[] := '{}';
    pace_mosts integer[] := '{}';
    pace_pers bigint[] := '{}';
    slot_keys text[] := '{}';
    frees integer[] := '{}';
    aheads integer[] := '{}';
    ends timestamptz[] := '{}';
    my_ticket bigint;
    my_at bigint;
    my_asked bigint;
    new_waits smallint := 0;
    new_place text := '';
    fit bigint;
    moved boolean;
    turn_at bigint;
    since bigint;
begin
    perform interlock.limit_lock(p_namespace, keys);
    now_is := interlock.now_or(p_given);
    now_us := interlock.micros(now_is);
    fresh := now_us - p_stale;
    waits_for := '';
    ahead := 0;
    differs := '';
    if not coalesce(interlock.session_expiry(p_namespace, p_session) > now_is, false) then
        answer := 'ended';
        return;
    end if;

    select array_agg(u.key order by u.key collate "C") as keys, array_agg(u.most order by u.key collate "C") as mosts,
           array_agg(u.per order by u.key collate "C") as pers, min(u.ticket) as ticket, min(u.asked_at) as asked_at,
           min(u.at) as at, bool_or(u.started) as started, min(u.waits) as waits, min(u.place) as place,
           bool_and(not u.started and greatest(u.last_asked, u.at) < fresh) as stale
    into me from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner;
    mine := me.ticket is not null;
    if mine and me.keys <> keys then
        -- Its limits are those of its first request. Nobody is waited for out of order.
        perform from interlock.limit_key k where k.namespace = p_namespace and k.key = any (me.keys) for update nowait;
    end if;
    if mine and me.stale then
        delete from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner;
        mine := false;
    end if;
    if mine then
        keys := me.keys;
        mosts := me.mosts;
        pers := me.pers;
        my_at := me.at;
    end if;
    my_ticket := case when mine then me.ticket else 9223372036854775807 end;
    my_asked := case when mine then me.asked_at else now_us end;

    -- How each key stands, this reservation itself not counted.
    longest := pers;
    for i in 1 .. cardinality(keys) loop
        loop
            select count(*) filter (where u.live)::integer as live, count(*) filter (where u.dead) as dead,
                   count(*) filter (where u.live and u.started)::integer as started,
                   count(*) filter (where u.live and u.in_line and u.ticket < my_ticket)::integer as ahead,
                   min(u.ends_at) filter (where u.live and (u.started or u.in_line and u.ticket < my_ticket)) as ends_at,
                   min(u.most) filter (where u.live) as least_most, max(u.most) filter (where u.live) as most_most,
                   min(u.per) filter (where u.live) as least_per, max(u.per) filter (where u.live) as most_per,
                   min(u.most) filter (where u.live and u.per = 0) as slots
            into s from interlock.limit_uses(p_namespace, keys[i], now_is, fresh) u where u.owner <> p_owner;
            exit when s.dead = 0;
            perform interlock.limit_bury(p_namespace, keys[i], now_is);
        end loop;
        if not mine and s.live >= p_full then
            answer := 'full';
            waits_for := keys[i];
            return;
        end if;
        if s.live > 0
           and (s.least_most, s.most_most, s.least_per, s.most_per) is distinct from (mosts[i], mosts[i], pers[i], pers[i])
        then
            if differs = '' then
                differs := keys[i];
            end if;
            longest[i] := greatest(s.most_per, pers[i]);
            for figure in
                select distinct u.most, u.per from interlock.limit_uses(p_namespace, keys[i], now_is, fresh) u
                where u.live and u.owner <> p_owner and u.per > 0 and (u.most, u.per) <> (mosts[i], pers[i])
            loop
                pace_keys := pace_keys || keys[i];
                pace_mosts := pace_mosts || figure.most;
                pace_pers := pace_pers || figure.per;
            end loop;
        end if;
        if pers[i] > 0 then
            pace_keys := pace_keys || keys[i];
            pace_mosts := pace_mosts || mosts[i];
            pace_pers := pace_pers || pers[i];
        else
            s.slots := least(s.slots, mosts[i]);
        end if;
        if s.slots is not null then
            slot_keys := slot_keys || keys[i];
            frees := frees || (s.slots - s.started);
            aheads := aheads || s.ahead;
            ends := ends || coalesce(s.ends_at, 'infinity');
        end if;
    end loop;

    if mine and me.started then
        answer := 'started';
        begins_at := me.at;
        return;
    end if;

    -- Its time. One that is due is checked against the starts that really were.
    if mine and my_at <= now_us then
        for i in 1 .. cardinality(pace_keys) loop
            if (select count(*) from interlock.limit_start t
                where t.namespace = p_namespace and t.key = pace_keys[i] and t.at > now_us - pace_pers[i]) >= pace_mosts[i]
            then
                my_at := null;
            end if;
        end loop;
    elsif mine then
        new_place := me.place;
    end if;
    if my_at is null then
        my_at := now_us;
        loop
            moved := false;
            for i in 1 .. cardinality(pace_keys) loop
                fit := interlock.limit_fit(
                    p_namespace, pace_keys[i], pace_mosts[i], pace_pers[i], my_at, my_ticket, now_is, fresh);
                if fit > my_at then
                    my_at := fit;
                    new_place := pace_keys[i];
                    moved := true;
                end if;
            end loop;
            exit when not moved or cardinality(pace_keys) = 1;
        end loop;
    end if;

    answer := 'waiting';
    if my_at > now_us then
        new_waits := 2;
        waits_for := new_place;
        begins_at := my_at;
        look_again := (my_at - now_us) / 1e6;
    else
        -- Its slots: the first key without room has it in its line.
        for i in 1 .. cardinality(slot_keys) loop
            continue when frees[i] > aheads[i];
            turn_at := null;
            if frees[i] > 0 then
                select k.free_since + (aheads[i] - frees[i] + 1) * p_claim into turn_at
                from interlock.limit_key k where k.namespace = p_namespace and k.key = slot_keys[i];
                continue when turn_at <= now_us;
            end if;
            new_waits := 1;
            new_place := slot_keys[i];
            waits_for := slot_keys[i];
            ahead := aheads[i];
            if ends[i] < 'infinity' then
                look_again := greatest(0, extract(epoch from ends[i] - now_is));
            end if;
            look_again := least(look_again, (turn_at - now_us) / 1e6);
            exit;
        end loop;
        if new_waits = 0 and p_start then
            answer := 'started';
            begins_at := now_us;
            my_at := now_us;
            new_place := '';
        elsif new_waits = 0 then
            begins_at := my_at;
            look_again := p_claim / 1e6;
            new_place := '';
            if cardinality(slot_keys) > 0 then
                new_waits := 1;
                new_place := slot_keys[1];
                since := now_us - greatest(0, aheads[1] - frees[1] + 1) * p_claim;
                update interlock.limit_key k set free_since = since
                where k.namespace = p_namespace and k.key = new_place and k.free_since < since;
            end if;
        end if;
    end if;

    if not mine or answer = 'started' or (my_at, new_waits, new_place) is distinct from (me.at, me.waits, me.place) then
        perform interlock.durably();
    elsif p_alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if mine then
        update interlock.limit_use u
        set last_asked = now_us, at = my_at, started = answer = 'started', waits = new_waits, place = new_place
        where u.namespace = p_namespace and u.owner = p_owner;
    else
        my_ticket := nextval('interlock.limit_ticket');
        insert into interlock.limit_use
            (namespace, key, ticket, owner, party, session, most, per, asked_at, last_asked, at, started, waits, place)
        select p_namespace, x.key, my_ticket, p_owner, p_party, p_session, x.most, x.per, now_us, now_us, my_at,
               answer = 'started', new_waits, new_place
        from unnest(keys, mosts, pers) as x (key, most, per);
    end if;
    if answer = 'started' then
        for i in 1 .. cardinality(keys) loop
            continue when longest[i] = 0;
            delete from interlock.limit_start t
            where t.namespace = p_namespace and t.key = keys[i] and t.at <= now_us - longest[i]
              and t.counts_until <= now_us;
            insert into interlock.limit_start
                (namespace, key, at, ticket, counts_until, owner, party, session, host, pid, program, most, per, asked_at)
            select p_namespace, keys[i], now_us, my_ticket, now_us + longest[i], p_owner, p_party, p_session, x.host,
                   x.pid, x.program, mosts[i], pers[i], my_asked
            from interlock.session x where x.namespace = p_namespace and x.id = p_session;
        end loop;
    else
        -- What was kept for it where it stood before is for those behind it; and those ahead of it may not know that
        -- there is room.
        if mine and me.waits = 1 and me.place <> new_place then
            perform interlock.limit_pass_on(p_namespace, me.place, '', now_is, fresh);
        end if;
        if turn_at is not null and new_waits = 1 and begins_at is null then
            perform interlock.limit_pass_on(p_namespace, new_place, '', now_is, fresh);
        end if;
    end if;
end
$$;

-- Free what a reservation had and tell those whose turn may have come. answer is finished, left (it never started) or
-- unknown. One that is alone (p_alone) does not wait for the disk: if a crash of the server forgets it, it is given up
-- again when its process reconnects; and whoever starts next waits for the disk, and so for this.
create function interlock.limit_finish(
    p_namespace text, p_session text, p_owner text, p_stale bigint, p_alone boolean, p_given double precision,
    out answer text, out next_owners text[]
)
language plpgsql volatile
as $$
declare
    keys text[];
    now_is timestamptz;
    fresh bigint;
    gone record;
    room bigint;
    rooms bigint[] := '{}';
begin
    answer := 'unknown';
    next_owners := '{}';
    select array_agg(u.key order by u.key collate "C") into keys
    from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner and u.session = p_session;
    if keys is null then
        return;
    end if;
    perform interlock.limit_lock(p_namespace, keys);
    now_is := interlock.now_or(p_given);
    fresh := interlock.micros(now_is) - p_stale;
    if not coalesce(interlock.session_expiry(p_namespace, p_session) > now_is, false) then
        return;
    end if;
    -- Room is counted here as the rows are; null where nobody is in line, who would care.
    for i in 1 .. cardinality(keys) loop
        select case when bool_or(u.waits = 1 and u.place = u.key)
                    then coalesce(min(u.most) filter (where u.per = 0), 1000) - count(*) filter (where u.started) end
        into room from interlock.limit_use u where u.namespace = p_namespace and u.key = keys[i];
        rooms := rooms || room;
    end loop;
    with removed as (
        delete from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner
        returning u.started, greatest(u.last_asked, u.at) as asked_at
    )
    select bool_or(r.started) as started, bool_or(r.started) or max(r.asked_at) >= fresh as kept into gone from removed r;
    if p_alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if gone.kept then
        answer := case when gone.started then 'finished' else 'left' end;
    end if;
    for i in 1 .. cardinality(keys) loop
        continue when rooms[i] is null;
        select coalesce(min(u.most) filter (where u.per = 0), 1000) - count(*) filter (where u.started)
        into room from interlock.limit_use u where u.namespace = p_namespace and u.key = keys[i];
        if rooms[i] <= 0 and room > 0 then
            update interlock.limit_key k set free_since = interlock.micros(now_is)
            where k.namespace = p_namespace and k.key = keys[i];
        end if;
        next_owners := next_owners || interlock.limit_pass_on(p_namespace, keys[i], p_session, now_is, fresh);
    end loop;
    if answer = 'unknown' then
        next_owners := '{}';
    end if;
end
$$;

-- Several requests (kind a) and ends (kind f) in one transaction, in the order given. All of their keys are locked first,
-- in order, so that two batches never wait for each other. The limits of request i end at p_ends[i] in the arrays.
create function interlock.limit_batch(
    p_namespace text, p_kinds text[], p_owners text[], p_parties text[], p_sessions text[], p_starts boolean[],
    p_ends integer[], p_keys text[], p_mosts integer[], p_pers bigint[], p_claim bigint, p_stale bigint, p_full integer,
    p_given double precision
) returns table (
    answer text, begins_at bigint, waits_for text, ahead integer, look_again double precision, differs text,
    next_owners text[]
)
language plpgsql volatile
as $$
declare
    keys text[];
    first integer := 1;
begin
    select array_agg(k.key order by k.key collate "C") into keys
    from (
        select unnest(p_keys) as key
        union
        select u.key from interlock.limit_use u where u.namespace = p_namespace and u.owner = any (p_owners)
    ) k;
    perform interlock.limit_lock(p_namespace, coalesce(keys, '{}'));
    for i in 1 .. cardinality(p_kinds) loop
        if p_kinds[i] = 'a' then
            select a.answer, a.begins_at, a.waits_for, a.ahead, a.look_again, a.differs, null
            into answer, begins_at, waits_for, ahead, look_again, differs, next_owners
            from interlock.limit_ask(
                p_namespace, p_owners[i], p_parties[i], p_sessions[i], p_keys[first : p_ends[i]],
                p_mosts[first : p_ends[i]], p_pers[first : p_ends[i]], p_starts[i], p_claim, p_stale, p_full, false,
                p_given) a;
        else
            select f.answer, null, null, null, null, null, f.next_owners
            into answer, begins_at, waits_for, ahead, look_again, differs, next_owners
            from interlock.limit_finish(p_namespace, p_sessions[i], p_owners[i], p_stale, false, p_given) f;
        end if;
        first := p_ends[i] + 1;
        return next;
    end loop;
end
$$;

-- Tell those who are next where an ended session stood. No key is locked for that: its rows are cleared away by whoever
-- comes to the key.
create function interlock.limit_session_end(
    p_namespace text, p_session text, p_stale bigint, p_given double precision
) returns void
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_given);
    used text;
begin
    for used in
        select distinct u.key from interlock.limit_use u where u.namespace = p_namespace and u.session = p_session
    loop
        perform interlock.limit_pass_on(p_namespace, used, p_session, now_is, interlock.micros(now_is) - p_stale);
    end loop;
end
$$;

-- Remove a bounded number of reservations and starts that count no more, and of keys that nothing is left of. Whoever is
-- at a key meanwhile is not waited for.
create function interlock.limit_sweep(p_namespace text, p_stale bigint, p_given double precision) returns integer
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_given);
    now_us bigint := interlock.micros(now_is);
    gone record;
    locked text[];
    removed integer;
    swept integer := 0;
begin
    for gone in
        select distinct u.key from interlock.limit_use u
        left join interlock.session s on s.namespace = u.namespace and s.id = u.session
        where u.namespace = p_namespace and (s.expires_at is null or s.expires_at <= now_is)
        limit 1000
    loop
        perform from interlock.limit_key k
        where k.namespace = p_namespace and k.key = gone.key for update skip locked;
        if found then
            perform interlock.limit_bury(p_namespace, gone.key, now_is);
            swept := swept + 1;
        end if;
    end loop;
    for gone in
        select u.owner, array_agg(u.key) as keys from interlock.limit_use u
        where u.namespace = p_namespace and not u.started and greatest(u.last_asked, u.at) < now_us - p_stale
        group by u.owner limit 1000
    loop
        select array_agg(x.key) into locked from (
            select k.key from interlock.limit_key k
            where k.namespace = p_namespace and k.key = any (gone.keys) for update skip locked) x;
        if cardinality(locked) = cardinality(gone.keys) then
            delete from interlock.limit_use u
            where u.namespace = p_namespace and u.owner = gone.owner and not u.started
              and greatest(u.last_asked, u.at) < now_us - p_stale;
            swept := swept + 1;
        end if;
    end loop;
    delete from interlock.limit_start t
    where (t.namespace, t.key, t.at, t.ticket) in (
        select x.namespace, x.key, x.at, x.ticket from interlock.limit_start x
        where x.namespace = p_namespace and x.counts_until <= now_us limit 10000);
    get diagnostics removed = row_count;
    swept := swept + removed;
    -- In two steps: what was put on a key before it was locked is seen only after that.
    select array_agg(x.key) into locked from (
        select k.key from interlock.limit_key k
        where k.namespace = p_namespace
          and not exists (select from interlock.limit_use u where u.namespace = k.namespace and u.key = k.key)
          and not exists (select from interlock.limit_start t where t.namespace = k.namespace and t.key = k.key)
        limit 1000 for update skip locked) x;
    delete from interlock.limit_key k
    where k.namespace = p_namespace and k.key = any (locked)
      and not exists (select from interlock.limit_use u where u.namespace = k.namespace and u.key = k.key)
      and not exists (select from interlock.limit_start t where t.namespace = k.namespace and t.key = k.key);
    get diagnostics removed = row_count;
    return swept + removed;
end
$$;
