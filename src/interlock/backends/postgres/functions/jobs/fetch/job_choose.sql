-- Choose from ready rows of one pool that the caller has locked, at most p_quota jobs: first the head of every lane,
-- then what is left as longer runs, spread evenly; those with limits as far as there is room. What is not taken and
-- does not wait for a limit stays ready. p_locked, p_counts: limits' keys that are locked, and how much was taken of
-- each in this fetch. got_ids, got_sorts: the jobs in the order to start them, with their unit's sort key;
-- got_careful: those to be among the first; got_runs: which run each belongs to, counted from p_first_run. busy:
-- something was left because somebody is at it; cut: because it has changed. placed: some wait for slots since now;
-- those may have come free meanwhile, unseen by who freed them. suspected: whether suspects are among those taken.
-- planner: lookups
create or replace function interlock.job_choose(
    p_namespace text, p_pool text, p_names text[], p_tids tid[], p_ids bigint[], p_sorts bigint[], p_classes smallint[],
    p_limited boolean[], p_lanes text[], p_keys text[], p_mosts integer[], p_quota integer, p_at_once integer,
    p_units integer, p_run integer, p_first_run integer, p_clock double precision, p_within bigint, inout p_now bigint,
    inout p_locked text[], inout p_counts jsonb,
    out got_ids bigint[], out got_sorts bigint[], out got_careful boolean[], out got_runs integer[], out units integer,
    out busy boolean, out cut boolean, out laned boolean, out with_limits boolean, out placed boolean, out woken bigint[],
    out suspected boolean
)
language plpgsql volatile
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
                    -- It is for who works on that queue, be it this fetcher at its next look.
                    able[c.unit] := false;
                    cut := true;
                    perform interlock.job_notify(newest.pool, newest.sort);
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
            p_now := greatest(p_now, interlock.micros(interlock.now_or(p_clock)));
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
        from interlock.job_check_limits(
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
        update interlock.job_lane l set fetched = true, low = u.low
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
            join interlock.job_limit_wait w on w.id = u.id where u.verdict = 2 and w.per = 0);
        for one in
            select u.key from unnest(keys) as u (key)
            cross join lateral (
                select from interlock.job_limit_wait w where w.key = u.key and w.namespace = p_namespace limit 1
            ) w
            where u.key = any (p_locked)
        loop
            woken := woken || interlock.job_wake(p_namespace, one, p_now, p_pool, p_names);
        end loop;
    end if;
end
$$;
