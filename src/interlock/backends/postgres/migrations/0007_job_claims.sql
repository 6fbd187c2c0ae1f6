-- A job that coalesces and is head of its lane, which the caller has locked: those directly behind it that do so too take
-- its place, in a limit's line too, up to the last of them or to p_most. Says which one that is, and whether there may be
-- more.
create function interlock.job_coalesce(
    p_namespace text, p_lane text, p_now bigint, p_most integer, out newest bigint, out more boolean
)
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = on
set enable_mergejoin = on
set plan_cache_mode = force_generic_plan
as $$
declare
    same bigint[];
    older bigint[];
    place bigint;
begin
    select array_agg(x.id order by x.position), count(*) = p_most into same, more
    from (
        select j.id, j.position,
               bool_and(j.coalesces and not (j.apart or j.half is not null and j.n > 1) and j.name = j.head_name)
                   over (order by j.position) as fits
        from (
            select y.*, row_number() over w as n, first_value(y.name) over w as head_name
            from (
                select q.id, q.position, q.coalesces, q.apart, q.half, q.name
                from interlock.job_lane l
                join interlock.job q on q.lane = l.lane and q.position >= least(
                    l.low, (select min(s.position) from interlock.job_signal s where s.namespace = p_namespace))
                where l.lane = p_lane
                order by q.position limit p_most
            ) y
            window w as (order by y.position)
        ) j
    ) x
    where x.fits;
    newest := same[cardinality(same)];
    older := same[: cardinality(same) - 1];
    if older <> '{}' then
        if exists (select from interlock.job j where j.id = newest and (j.use_key is not null or j.uses is not null)) then
            place := least(
                (select min(w.ticket) from interlock.job_wait w where w.id = any (older)),
                (select min(j.ticket) from interlock.job j where j.id = any (older)));
        end if;
        if place is not null then
            -- It stands where they stood if that is one of its limits, else it has their ticket when it comes to stand.
            insert into interlock.job_wait (id, ticket, per, most, woken, namespace, key, pool, name)
            select j.id, place, u.per, u.most, true, p_namespace, u.key, j.pool, j.name
            from interlock.job j
            cross join lateral interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u
            where j.id = newest
              and u.key in (select w.key from interlock.job_wait w where w.id = any (older))
            limit 1;
            update interlock.job j set ticket = place where j.id = newest;
        end if;
        perform interlock.job_leave_line(p_namespace, older);
        perform interlock.job_end(p_namespace, older, 4::smallint, newest, null, p_now);
    end if;
end
$$;

-- Read what stands in lanes: of each that nobody else is at, and that is locked by it, the jobs that can be given together,
-- at most p_most. p_ids: which job is offered of each, p_lanes null for those without one. able: whether the unit can be
-- taken; lane_tids, lows: of each unit, its lane's row and its head's position; units, ids: the jobs of all units that can
-- be taken, in order; stale: lanes whose head is another one than offered; wanting: units whose head coalesces; ticketed:
-- whether any of them has a ticket from a line in which it stood.
create function interlock.job_runs(
    p_namespace text, p_pool text, p_names text[], p_ids bigint[], p_lanes text[], p_most integer,
    out able boolean[], out lane_tids tid[], out lows bigint[], out units integer[], out ids bigint[], out stale text[],
    out wanting integer[], out busy boolean, out ticketed boolean
)
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
begin
    select array_agg(l.tid), array_agg(l.low), bool_or(u.lane is not null and l.tid is null)
    into lane_tids, lows, busy
    from unnest(p_lanes) as u (lane)
    left join lateral (
        select l.ctid as tid, l.low from interlock.job_lane l
        where l.lane = u.lane and not l.claimed limit 1 for update skip locked
    ) l on true;
    with read as materialized (
        select u.unit, u.lane, u.tid, r.low, r.ticketed, r.coalesces[1] as coalesces,
               u.lane is null or coalesce(r.ids[1] = u.offered, false) as able,
               case when u.lane is null then array[u.offered]
                    when r.alone[1] then r.ids[: 1]
                    else r.ids[: coalesce(array_position(r.misfits, true, 2) - 1, cardinality(r.ids))] end as ids
        from unnest(p_lanes, p_ids, lane_tids, lows) with ordinality as u (lane, offered, tid, low, unit)
        cross join lateral (
            select array_agg(x.id) as ids, array_agg(x.alone) as alone, array_agg(x.coalesces) as coalesces,
                   array_agg(x.alone or x.other) as misfits, min(x.position) as low,
                   bool_or(x.ticket is not null) as ticketed
            from (
                select j.id, j.position, j.ticket, j.coalesces,
                       j.coalesces or j.half is not null or j.use_key is not null or j.uses is not null as alone,
                       j.apart or j.pool <> p_pool or j.name <> all (p_names) as other
                from interlock.job j
                where u.tid is not null and j.lane = u.lane
                  and j.position >= least(
                      u.low, (select min(s.position) from interlock.job_signal s where s.namespace = p_namespace))
                order by j.position limit p_most
            ) x
        ) r
    )
    select array_agg(r.able), array_agg(r.low), array_agg(r.lane) filter (where r.tid is not null and not r.able),
           array_agg(r.unit) filter (where r.able and r.coalesces), bool_or(r.ticketed),
           (select array_agg(x.unit) from (select q.unit, unnest(q.ids) from read q where q.able) x),
           (select array_agg(x.id) from (select unnest(q.ids) as id from read q where q.able) x)
    into able, lows, stale, wanting, ticketed, units, ids
    from read r;
end
$$;

-- Add to ready rows of a pool those that are given only to who can start now, in order. p_suspects: whether suspects may be
-- among them; they are of one half, which is p_half, or that of the first of them if it is null.
create function interlock.job_pick_careful(
    p_pool text, p_names text[], p_most integer, p_suspects boolean, inout p_half bigint, inout tids tid[], inout ids bigint[],
    inout sorts bigint[], inout limited boolean[], inout lanes text[], inout keys text[], inout mosts integer[],
    out classes smallint[]
)
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = on
set enable_mergejoin = on
set plan_cache_mode = force_generic_plan
as $$
begin
    if p_suspects and p_half is null then
        p_half := (
            select x.half from (
                select r.half from interlock.job_ready r
                where r.pool = p_pool and r.class = 2 and r.name = any (p_names)
                order by r.sort, r.id limit 1 for update skip locked) x);
    end if;
    select array_agg(p.tid order by p.sort, p.id), array_agg(p.id order by p.sort, p.id),
           array_agg(p.sort order by p.sort, p.id), array_agg(p.limited order by p.sort, p.id),
           array_agg(p.lane order by p.sort, p.id), array_agg(p.key order by p.sort, p.id),
           array_agg(p.most order by p.sort, p.id), array_agg(p.class order by p.sort, p.id)
    into tids, ids, sorts, limited, lanes, keys, mosts, classes
    from (
        select u.tid, u.id, u.sort, u.limited, u.lane, u.key, u.most, 0::smallint as class
        from unnest(tids, ids, sorts, limited, lanes, keys, mosts) as u (tid, id, sort, limited, lane, key, most)
        union all
        select * from (
            select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_most, r.class from interlock.job_ready r
            where r.pool = p_pool and r.class = 1 and r.name = any (p_names)
            order by r.sort, r.id limit p_most for update skip locked) paced
        union all
        select * from (
            select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_most, r.class from interlock.job_ready r
            where p_suspects and r.pool = p_pool and r.class = 2 and r.half = p_half and r.name = any (p_names)
            order by r.sort, r.id limit p_most for update skip locked) suspect
    ) p;
end
$$;

-- Choose from ready rows of one pool that the caller has locked, at most p_quota jobs: first the head of every lane,
-- then what is left as longer runs, spread evenly; those with limits as far as there is room. What is not taken and
-- does not wait for a limit stays ready. p_locked, p_counts: limits' keys that are locked, and how much was taken of
-- each in this claim. got_ids, got_sorts: the jobs in the order to start them, with their unit's sort key;
-- got_careful: those to be among the first; got_runs: which run each belongs to, counted from p_first_run. busy:
-- something was left because somebody is at it; cut: because it has changed. placed: some wait for slots since now;
-- those may have come free meanwhile, unseen by who freed them. suspected: whether suspects are among those taken.
create function interlock.job_choose(
    p_namespace text, p_pool text, p_names text[], p_tids tid[], p_ids bigint[], p_sorts bigint[], p_classes smallint[],
    p_limited boolean[], p_lanes text[], p_keys text[], p_mosts integer[], p_quota integer, p_at_once integer,
    p_units integer, p_run integer, p_first_run integer, p_given double precision, p_within bigint, inout p_now bigint,
    inout p_locked text[], inout p_counts jsonb,
    out got_ids bigint[], out got_sorts bigint[], out got_careful boolean[], out got_runs integer[], out units integer,
    out busy boolean, out cut boolean, out laned boolean, out with_limits boolean, out placed boolean, out woken bigint[],
    out suspected boolean
)
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    n integer := cardinality(p_ids);
    lanes integer := (select count(u.lane) from unnest(p_lanes) as u (lane));
    careful boolean := exists (select from unnest(p_classes) as u (class) where u.class > 0);
    able boolean[];
    run_units integer[];
    run_ids bigint[];
    lane_tids tid[];
    lows bigint[];
    stale text[];
    wanting integer[];
    ticketed boolean;
    verdicts smallint[];
    c record;
    newest record;
    keys text[];
    all_locked boolean;
    one text;
    waited boolean;
begin
    busy := false;
    cut := false;
    placed := false;
    laned := lanes > 0;
    with_limits := true = any (p_limited);
    woken := '{}';
    suspected := false;
    if laned then
        select r.able, r.units, r.ids, r.lane_tids, r.lows, r.stale, r.wanting, r.busy, r.ticketed
        into able, run_units, run_ids, lane_tids, lows, stale, wanting, busy, ticketed
        from interlock.job_runs(
            p_namespace, p_pool, p_names, p_ids, p_lanes, 1 + least(p_run - 1, greatest(0, p_quota - n) / lanes)) r;
        if stale is not null then
            delete from interlock.job_ready r where r.lane = any (stale);
            perform interlock.job_advance(p_namespace, stale, false);
            cut := true;
        end if;
        if wanting is not null then
            for c in
                select w.unit, q.newest, q.more from unnest(wanting) as w (unit)
                cross join lateral interlock.job_coalesce(p_namespace, p_lanes[w.unit], p_now, 1000) q
            loop
                cut := cut or c.more;
                able[c.unit] := not c.more;
                continue when c.newest = p_ids[c.unit];
                delete from interlock.job_ready r where r.ctid = p_tids[c.unit];
                insert into interlock.job_ready as r (pool, sort, id, half, use_most, class, limited, name, lane, use_key)
                select j.pool, interlock.job_sort(j.due_at, j.priority), j.id, j.half,
                       case when j.use_per = 0 then j.use_most end, interlock.job_class(j.half, j.paced), j.use_key is not null or j.uses is not null, j.name, j.lane,
                       case when j.use_per = 0 then j.use_key end
                from interlock.job j where j.id = c.newest
                returning r.ctid as tid, r.* into newest;
                p_tids[c.unit] := newest.tid;
                p_ids[c.unit] := newest.id;
                p_classes[c.unit] := newest.class;
                p_limited[c.unit] := newest.limited;
                p_keys[c.unit] := newest.use_key;
                p_mosts[c.unit] := newest.use_most;
                with_limits := with_limits or newest.limited;
                ticketed := ticketed or newest.limited;
                careful := careful or newest.class > 0;
                if newest.pool <> p_pool then
                    -- It is for who works on that queue, be it this claimer at its next look.
                    able[c.unit] := false;
                    cut := true;
                    perform interlock.job_tell(newest.pool, newest.sort);
                end if;
                run_ids[array_position(run_units, c.unit)] := newest.id;
            end loop;
        end if;
    end if;

    if with_limits then
        keys := array(
            select distinct x.key from (
                select u.key from unnest(p_keys) as u (key) where u.key is not null
                union all
                select q.key
                from unnest(p_ids, p_limited, p_keys) as u (id, limited, key)
                join interlock.job j on j.id = u.id
                cross join lateral interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) q
                where u.limited and u.key is null
            ) x);
        waited := p_locked = '{}';
        p_locked := interlock.job_limit_lock(p_namespace, keys, p_locked);
        if waited then
            -- What starts under a pace starts now, not when the wait for its key began.
            p_now := greatest(p_now, interlock.micros(interlock.now_or(p_given)));
        end if;
        all_locked := not exists (
            select u.key from unnest(keys) as u (key) except select u.key from unnest(p_locked) as u (key));
        if all_locked and not careful and n <= p_quota and not p_counts ?| keys and not coalesce(false = any (able), false)
           and not exists (select from unnest(p_limited, p_keys) as u (limited, key) where u.limited and u.key is null)
        then
            select t.taken, t.counts into c
            from interlock.job_take_slots(p_namespace, p_keys, p_mosts, p_at_once, p_now) t;
            if c.taken then
                p_counts := p_counts || c.counts;
                if not laned then
                    delete from interlock.job_ready r where r.ctid = any (p_tids);
                    got_ids := p_ids;
                    got_sorts := p_sorts;
                    got_careful := array_fill(false, array[n]);
                    got_runs := array_fill(null::integer, array[n]);
                    units := n;
                    return;
                end if;
                verdicts := array_fill(1::smallint, array[n]);
            end if;
        end if;
    end if;
    able := coalesce(able, array_fill(true, array[n]));
    if not laned then
        run_units := array(select generate_series(1, n));
        run_ids := p_ids;
    end if;
    if with_limits and not all_locked then
        busy := true;
        for i in 1 .. n loop
            if p_limited[i] and exists (
                select from interlock.job j
                cross join lateral interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) q
                where j.id = p_ids[i] and q.key <> all (p_locked))
            then
                able[i] := false;
            end if;
        end loop;
    end if;
    if verdicts is null and (with_limits or careful) then
        select q.verdicts, q.p_counts, cut or q.behind into verdicts, p_counts, cut
        from interlock.job_judge(
            p_namespace, p_pool, p_names, p_ids, p_classes, p_limited, p_keys, p_mosts, able, p_at_once, p_units, p_quota,
            p_now, p_within, p_counts) q;
    elsif verdicts is null then
        verdicts := array(
            select u.able::integer::smallint from unnest(able) with ordinality as u (able, n) order by u.n);
    end if;

    -- What was taken goes out; what waits goes out too.
    delete from interlock.job_ready r where r.ctid = any (array(
        select u.tid from unnest(verdicts, p_tids) as u (verdict, tid) where u.verdict in (1, 2)));
    if laned then
        update interlock.job_lane l set claimed = true, low = u.low
        from unnest(verdicts, lane_tids, lows) as u (verdict, tid, low)
        where u.verdict = 1 and u.tid is not null and l.ctid = u.tid;
    end if;
    if careful or with_limits then
        update interlock.job_ready r set class = 1 where r.ctid = any (array(
            select u.tid from unnest(verdicts, p_tids) as u (verdict, tid) where u.verdict = 3));
    end if;
    select coalesce(array_agg(q.id), '{}'), coalesce(array_agg(p_sorts[q.unit]), '{}'),
           coalesce(array_agg(p_classes[q.unit] > 0), '{}'),
           coalesce(array_agg(case when p_lanes[q.unit] is not null then p_first_run + q.unit end), '{}')
    into got_ids, got_sorts, got_careful, got_runs
    from unnest(run_units, run_ids) as q (unit, id)
    where verdicts[q.unit] = 1;
    units := (select count(*) from unnest(verdicts) as u (verdict) where u.verdict = 1);
    if careful then
        -- If all suspects of the half had to wait for a limit, another half may go on.
        select coalesce(bool_or(u.verdict = 1), false), cut or coalesce(bool_or(u.verdict = 2) and not bool_or(u.verdict = 1), false)
        into suspected, cut
        from unnest(verdicts, p_classes) as u (verdict, class) where u.class = 2;
    end if;
    if ticketed then
        update interlock.job j set ticket = null where j.id = any (got_ids) and j.ticket is not null;
    end if;
    if with_limits then
        placed := exists (
            select from unnest(verdicts, p_ids) as u (verdict, id)
            join interlock.job_wait w on w.id = u.id where u.verdict = 2 and w.per = 0);
        for one in
            select u.key from unnest(keys) as u (key)
            cross join lateral (
                select from interlock.job_wait w where w.key = u.key and w.namespace = p_namespace limit 1
            ) w
            where u.key = any (p_locked)
        loop
            woken := woken || interlock.job_wake(p_namespace, one, p_now, p_pool, p_names);
        end loop;
    end if;
end
$$;

-- Claim jobs for a session: first what is due, what lanes have and what limits let go on is made ready, then the ready
-- jobs are taken in order, of each queue its share. p_marks: for each queue, the sort key before which nothing was found
-- lately; what is there is found when less than asked for is found behind it.
-- One row a job, in the order to start them, and one more without an id: name is ended if the session is; due_at after
-- how many seconds to look again; slots the marks for the next time.
create function interlock.job_claim(
    p_namespace text, p_session text, p_pools text[], p_names text[], p_most integer, p_at_once integer, p_run integer,
    p_turn bigint, p_marks bigint[], p_start_within double precision, p_given double precision
) returns table (
    id bigint, name text, queue text, lane text, fence bigint, attempt integer, crashes smallint, half bigint,
    priority smallint, enqueued_at double precision, due_at double precision, arguments text, options text, slots text[],
    paced boolean
)
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    lowest constant bigint := -9223372036854775808;
    chunk constant integer := 100;
    breadth constant integer := 250;
    now_is timestamptz := interlock.now_or(p_given);
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
    left join interlock.job_crew c on c.namespace = s.namespace and c.session = s.id
    where s.namespace = p_namespace and s.id = p_session and s.expires_at > now_is;
    if not found then
        name := 'ended';
        return next;
        return;
    end if;
    if me.id is null or me.seen_at < now_us - 3600000000 then
        insert into interlock.job_namespace values (p_namespace) on conflict do nothing;
        insert into interlock.job_crew as c (namespace, session, host, pid, program, seen_at)
        select s.namespace, s.id, s.host, s.pid, s.program, now_us
        from interlock.session s where s.namespace = p_namespace and s.id = p_session
        on conflict (namespace, session) do update set seen_at = excluded.seen_at
        returning c.id, c.seen_at into me;
    end if;
    if p_turn > 0 then
        -- Locked, so that who hands back sees either this claim or that it does not take place.
        perform from interlock.job_crew c where c.id = me.id for share;
        if exists (select from interlock.job_crew c where c.id = me.id and c.barred >= p_turn) then
            name := '';
            due_at := 0;
            slots := p_marks::text[];
            return next;
            return;
        end if;
    end if;

    -- What can go on becomes ready.
    select exists (select from interlock.job_signal s where s.namespace = p_namespace) as signals,
           exists (select from interlock.job_freed f where f.namespace = p_namespace) as freed,
           (select min(k.wake_at) from interlock.job_limit k
            where k.namespace = p_namespace and k.wake_at is not null) as wake_at,
           (select min(l.at) from unnest(p_pools) as x (pool)
            cross join lateral (
                select l.at from interlock.job_later l where l.pool = x.pool order by l.at limit 1) l) as due_at
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
        now_us := greatest(now_us, interlock.micros(interlock.now_or(p_given)));
        if done.pools is not null then
            marks := array_fill(lowest, array[pools]);
            todo.signals := true;
            perform interlock.job_tell(u.pool, u.sort) from unnest(done.pools, done.sorts) as u (pool, sort)
            where u.pool <> all (p_pools);
        end if;
    end if;
    if todo.signals then
        select r.unfinished, r.pools, r.sorts into done
        from interlock.job_rouse(p_namespace, least(2000, greatest(100, 4 * p_most)), signalled) r;
        busy := done.unfinished;
        if done.pools is not null then
            for i in 1 .. pools loop
                marks[i] := least(marks[i], done.sorts[array_position(done.pools, p_pools[i])]);
            end loop;
            perform interlock.job_tell(u.pool, u.sort) from unnest(done.pools, done.sorts) as u (pool, sort)
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
                -- A session has suspects of one half at a time. Claims of one session that go side by side (two workers
                -- of a process) take turns with suspects; who would have to wait looks again soon.
                if suspects is null and exists (
                    select from interlock.job_ready r where r.pool = p_pools[i] and r.class = 2)
                then
                    suspects := pg_try_advisory_xact_lock(1229870160, hashtext(p_session));
                    busy := busy or not suspects;
                    of_half := (
                        select j.half from interlock.job_claimed c cross join lateral unnest(c.ids) as o (id)
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
                p_at_once, units, p_run, rounds * 10000, p_given, within, now_us, locked, counts) c;
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
                perform interlock.job_tell(m.pool, m.sort)
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
            insert into interlock.job_claimed (fence, claimed_at, crew, turn, limited, namespace, session, ids, runs)
            values (next_fence, now_us, me.id, p_turn, any_limited, p_namespace, p_session, all_ids[first : last],
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
                                select l.at from interlock.job_later l where l.pool = x.pool order by l.at limit 1) l);
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
