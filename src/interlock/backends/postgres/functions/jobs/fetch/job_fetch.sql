-- Fetch jobs for a session: first what is due, what lanes have and what limits let go on is made ready, then the ready
-- jobs are taken in order, of each queue its share. p_marks: for each queue, the sort key before which nothing was found
-- lately; what is there is found when less than asked for is found behind it.
-- One row a job, in the order to start them, and one more without an id: name is ended if the session is; due_at after
-- how many seconds to look again; slots the marks for the next time.
-- planner: lookups
create or replace function interlock.job_fetch(
    p_namespace text, p_session text, p_pools text[], p_names text[], p_most integer, p_at_once integer, p_run integer,
    p_fetch_number bigint, p_marks bigint[], p_start_within double precision, p_clock double precision
) returns table (
    id bigint, name text, queue text, lane text, fence bigint, attempt integer, crashes smallint, half bigint,
    priority smallint, enqueued_at double precision, due_at double precision, arguments text, options text, slots text[],
    paced boolean
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    lowest constant bigint := -9223372036854775808;
    chunk constant integer := 100;
    breadth constant integer := 250;
    now_is timestamptz := interlock.now_or(p_clock);
    now_us bigint := interlock.micros(now_is);
    within constant bigint := (p_start_within * 1e6)::bigint;
    me record;
    todo record;
    done record;
    pools integer := cardinality(p_pools);
    marks bigint[] := p_marks;
    from_sorts bigint[];
    next_marks bigint[] := array_fill(lowest, array[pools]);
    left_some boolean[] := array_fill(false, array[pools]);
    from_ids bigint[] := array_fill(-1::bigint, array[pools]);
    over boolean[] := array_fill(false, array[pools]);
    sharing integer;
    quota integer;
    want integer;
    found_here integer;
    suspects boolean;
    of_half bigint;
    picked_half bigint;
    special boolean;
    any_special boolean := false;
    any_laned boolean := false;
    any_limited boolean := false;
    tids tid[];
    ids bigint[];
    sorts bigint[];
    classes smallint[];
    under_limits boolean[];
    lanes text[];
    keys text[];
    mosts integer[];
    all_ids bigint[] := '{}';
    all_sorts bigint[] := '{}';
    all_careful boolean[] := '{}';
    all_runs integer[] := '{}';
    rounds integer := 0;
    first integer := 1;
    last integer;
    fences bigint[] := '{}';
    next_fence bigint;
    units integer := 0;
    busy boolean := false;
    cut boolean := false;
    placed boolean := false;
    locked text[] := '{}';
    counts jsonb := '{}';
    signalled text[];
    look_again double precision;
begin
    perform interlock.durably();
    select c.id, c.seen_at into me
    from interlock.session s
    left join interlock.job_session c on c.namespace = s.namespace and c.session = s.id
    where s.namespace = p_namespace and s.id = p_session and s.expires_at > now_is;
    if not found then
        name := 'ended';
        return next;
        return;
    end if;
    if me.id is null or me.seen_at < now_us - 3600000000 then
        insert into interlock.job_namespace values (p_namespace) on conflict do nothing;
        insert into interlock.job_session as c (namespace, session, host, pid, program, seen_at)
        select s.namespace, s.id, s.host, s.pid, s.program, now_us
        from interlock.session s where s.namespace = p_namespace and s.id = p_session
        on conflict (namespace, session) do update set seen_at = excluded.seen_at
        returning c.id, c.seen_at into me;
    end if;
    if p_fetch_number > 0 then
        -- Locked, so that who hands back sees either this fetch or that it does not take place.
        perform from interlock.job_session c where c.id = me.id for share;
        if exists (select from interlock.job_session c where c.id = me.id and c.barred >= p_fetch_number) then
            name := '';
            due_at := 0;
            slots := p_marks::text[];
            return next;
            return;
        end if;
    end if;

    -- What can go on becomes ready.
    select exists (select from interlock.job_signal s where s.namespace = p_namespace) as signals,
           exists (select from interlock.job_slot_freed f where f.namespace = p_namespace) as freed,
           (select min(k.wake_at) from interlock.job_limit k
            where k.namespace = p_namespace and k.wake_at is not null) as wake_at,
           (select min(l.at) from unnest(p_pools) as x (pool)
            cross join lateral (
                select l.at from interlock.job_scheduled l where l.pool = x.pool order by l.at limit 1) l) as due_at
    into todo;
    if todo.due_at <= now_us then
        select p.unfinished, p.signalled into cut, signalled
        from interlock.job_promote(p_namespace, p_pools, now_us, 1000) p;
        marks := array_fill(lowest, array[pools]);
        todo.signals := true;
    end if;
    if todo.freed or todo.wake_at <= now_us then
        select f.locked, f.pools, f.sorts, f.signalled into done from interlock.job_free_up(p_namespace, null, now_us) f;
        locked := done.locked;
        signalled := signalled || done.signalled;
        now_us := greatest(now_us, interlock.micros(interlock.now_or(p_clock)));
        if done.pools is not null then
            marks := array_fill(lowest, array[pools]);
            todo.signals := true;
            perform interlock.job_notify(u.pool, u.sort) from unnest(done.pools, done.sorts) as u (pool, sort)
            where u.pool <> all (p_pools);
        end if;
    end if;
    if todo.signals then
        select r.unfinished, r.pools, r.sorts into done
        from interlock.job_wake_lanes(p_namespace, least(2000, greatest(100, 4 * p_most)), signalled) r;
        busy := done.unfinished;
        if done.pools is not null then
            for i in 1 .. pools loop
                marks[i] := least(marks[i], done.sorts[array_position(done.pools, p_pools[i])]);
            end loop;
            perform interlock.job_notify(u.pool, u.sort) from unnest(done.pools, done.sorts) as u (pool, sort)
            where u.pool <> all (p_pools);
        end if;
    end if;

    -- What is ready is taken, in rounds: each queue its share of what is wanted still.
    from_sorts := marks;
    for round in 1 .. 5 loop
        sharing := (select count(*) from unnest(over) as o (is_over) where not o.is_over);
        exit when sharing = 0 or cardinality(all_ids) >= p_most;
        for i in 1 .. pools loop
            continue when over[i];
            quota := (p_most - cardinality(all_ids) + sharing - 1) / sharing;
            sharing := sharing - 1;
            continue when quota <= 0;
            -- Lanes that have several jobs are given as runs, which is less to do for each job; fewer lanes are enough.
            want := quota;
            if p_run > 1 and quota > breadth and (
                select r.lane is not null from interlock.job_ready r
                where r.pool = p_pools[i] and r.class = 0 and r.sort >= from_sorts[i] order by r.sort, r.id limit 1)
            then
                want := greatest(breadth, p_at_once);
            end if;
            select array_agg(p.ctid), array_agg(p.id), array_agg(p.sort), array_agg(p.limited), array_agg(p.lane),
                   array_agg(p.use_key), array_agg(p.use_most), coalesce(bool_or(p.limited or p.lane is not null), false),
                   count(*)
            into tids, ids, sorts, under_limits, lanes, keys, mosts, special, found_here
            from (
                select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_most from interlock.job_ready r
                where r.pool = p_pools[i] and r.class = 0 and (r.sort, r.id) > (from_sorts[i], from_ids[i])
                  and r.name = any (p_names)
                order by r.sort, r.id limit want for update skip locked
            ) p;
            if found_here < want and marks[i] > lowest then
                -- Less than wanted behind the mark: what is before it is taken first.
                select array_agg(p.ctid) || tids, array_agg(p.id) || ids, array_agg(p.sort) || sorts,
                       array_agg(p.limited) || under_limits, array_agg(p.lane) || lanes, array_agg(p.use_key) || keys,
                       array_agg(p.use_most) || mosts, special or coalesce(bool_or(p.limited or p.lane is not null), false),
                       found_here + count(*)
                into tids, ids, sorts, under_limits, lanes, keys, mosts, special, found_here
                from (
                    select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_most from interlock.job_ready r
                    where r.pool = p_pools[i] and r.class = 0 and r.sort < marks[i] and r.name = any (p_names)
                    order by r.sort, r.id limit want - found_here for update skip locked
                ) p;
                marks[i] := lowest;
            end if;
            over[i] := found_here < want;
            if round = 1 and p_at_once > units and exists (
                select from interlock.job_ready r where r.pool = p_pools[i] and r.class > 0)
            then
                -- A session has suspects of one half at a time. Fetches of one session that go side by side (two workers
                -- of a process) take turns with suspects; who would have to wait looks again soon.
                if suspects is null and exists (
                    select from interlock.job_ready r where r.pool = p_pools[i] and r.class = 2)
                then
                    suspects := pg_try_advisory_xact_lock(1229870160, hashtext(p_session));
                    busy := busy or not suspects;
                    of_half := (
                        select j.half from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id)
                        join interlock.job j on j.id = o.id
                        where c.session = p_session and c.namespace = p_namespace and j.half is not null limit 1);
                end if;
                select m.p_half, m.tids, m.ids, m.sorts, m.classes, m.limited, m.lanes, m.keys, m.mosts
                into picked_half, tids, ids, sorts, classes, under_limits, lanes, keys, mosts
                from interlock.job_pick_careful(
                    p_pools[i], p_names, least(want, p_at_once - units), coalesce(suspects, false), of_half, tids, ids,
                    sorts, under_limits, lanes, keys, mosts) m;
                special := true;
                if cardinality(ids) > want then
                    ids := ids[: want];
                    over[i] := false;
                end if;
            elsif special then
                classes := array_fill(0::smallint, array[found_here]);
            end if;
            continue when ids is null;
            -- Where the next round goes on.
            for k in reverse cardinality(ids) .. 1 loop
                if not special or classes[k] = 0 then
                    from_sorts[i] := sorts[k];
                    from_ids[i] := ids[k];
                    exit;
                end if;
            end loop;
            if not special then
                delete from interlock.job_ready r where r.ctid = any (tids);
                all_ids := all_ids || ids;
                all_sorts := all_sorts || sorts;
                all_careful := all_careful || array_fill(false, array[found_here]);
                all_runs := all_runs || array_fill(null::integer, array[found_here]);
                units := units + found_here;
                rounds := rounds + 1;
                continue;
            end if;
            select c.* into done from interlock.job_choose(
                p_namespace, p_pools[i], p_names, tids[: cardinality(ids)], ids, sorts[: cardinality(ids)],
                classes[: cardinality(ids)], under_limits[: cardinality(ids)], lanes[: cardinality(ids)],
                keys[: cardinality(ids)], mosts[: cardinality(ids)], quota,
                p_at_once, units, p_run, rounds * 10000, p_clock, within, now_us, locked, counts) c;
            now_us := done.p_now;
            if done.suspected then
                of_half := picked_half;
            end if;
            any_special := true;
            rounds := rounds + 1;
            any_laned := any_laned or done.laned;
            any_limited := any_limited or done.with_limits;
            all_ids := all_ids || done.got_ids;
            all_sorts := all_sorts || done.got_sorts;
            all_careful := all_careful || done.got_careful;
            all_runs := all_runs || done.got_runs;
            units := units + done.units;
            locked := done.p_locked;
            counts := done.p_counts;
            busy := busy or done.busy;
            cut := cut or done.cut;
            placed := placed or done.placed;
            left_some[i] := left_some[i] or done.units < cardinality(ids);
            if cardinality(done.woken) > 0 then
                cut := true;
                perform interlock.job_notify(m.pool, m.sort)
                from (
                    select u.pool, u.sort from interlock.job_make_ready(p_namespace, done.woken) m
                    cross join lateral unnest(m.pools, m.sorts) as u (pool, sort)
                ) m
                where m.pool <> all (p_pools);
            end if;
        end loop;
    end loop;

    if cardinality(all_ids) > 0 then
        if rounds > 1 then
            -- Those that are given only to who can start now stay among the first.
            select array_agg(u.id order by u.careful desc, u.sort, u.n), array_agg(u.run order by u.careful desc, u.sort, u.n)
            into all_ids, all_runs
            from unnest(all_ids, all_sorts, all_careful, all_runs) with ordinality as u (id, sort, careful, run, n);
        end if;
        while first <= cardinality(all_ids) loop
            last := least(first + chunk - 1, cardinality(all_ids));
            while any_laned and all_runs[last] = all_runs[last + 1] loop
                last := last + 1;
            end loop;
            next_fence := nextval('interlock.fence');
            insert into interlock.job_fetched (fence, fetched_at, crew, fetch_number, limited, namespace, session, ids, runs)
            values (next_fence, now_us, me.id, p_fetch_number, any_limited, p_namespace, p_session, all_ids[first : last],
                    case when any_laned then all_runs[first : last] end);
            fences := fences || array_fill(next_fence, array[last - first + 1]);
            first := last + 1;
        end loop;
        return query
            select j.id, j.name, substr(j.pool, length(p_namespace) + 2), coalesce(substr(j.lane, length(p_namespace) + 2), ''),
                   u.fence, j.attempt + 1, j.crashes, j.half, j.priority, j.enqueued_at / 1e6::float8,
                   j.due_at / 1e6::float8, j.arguments, j.options,
                   case when j.use_per = 0 then array[j.use_key]
                        when j.uses is not null then array(
                            select q.key from interlock.job_uses(null, null, null, j.uses) q where q.per = 0) end,
                   j.paced
            from unnest(all_ids, fences) as u (id, fence)
            join interlock.job j on j.id = u.id;
    end if;

    if cut then
        look_again := 0;
    elsif busy then
        look_again := 0.01;
    else
        if any_special or least(todo.due_at, todo.wake_at) <= now_us then
            todo.wake_at := (select min(k.wake_at) from interlock.job_limit k
                             where k.namespace = p_namespace and k.wake_at is not null);
            todo.due_at := (select min(l.at) from unnest(p_pools) as x (pool)
                            cross join lateral (
                                select l.at from interlock.job_scheduled l where l.pool = x.pool order by l.at limit 1) l);
        end if;
        look_again := (least(todo.due_at, todo.wake_at) - now_us) / 1e6;
        if placed then
            look_again := least(look_again, 0.1);
        end if;
    end if;
    for i in 1 .. pools loop
        if not over[i] and not left_some[i] then
            next_marks[i] := from_sorts[i];
        end if;
    end loop;
    name := '';
    due_at := look_again;
    slots := next_marks::text[];
    return next;
end
$$;
