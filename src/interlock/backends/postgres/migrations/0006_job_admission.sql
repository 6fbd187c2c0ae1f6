-- End jobs that are not claimed: superseded (4) by another, or cancelled (3). Who waits for their end is told.
create function interlock.job_end(
    p_namespace text, p_ids bigint[], p_state smallint, p_superseded_by bigint, p_error text, p_now bigint
) returns void
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
    perform from interlock.job j where j.id = any (p_ids) order by j.id for update;
    with gone as (
        delete from interlock.job j using unnest(p_ids) as u (id) where j.id = u.id returning j.*
    )
    insert into interlock.job_history (
        id, enqueued_at, due_at, fence, keep_result, finished_at, superseded_by, use_per, use_most, attempt, priority,
        crashes, state, settled, failing, coalesces, paced, pool, name, lane, use_key, uses, arguments, options, error,
        attempts)
    select g.id, g.enqueued_at, g.due_at, g.fence, g.keep_result, p_now, p_superseded_by, g.use_per, g.use_most, g.attempt,
           g.priority, g.crashes, p_state, g.settled, g.failing, g.coalesces, g.paced, g.pool, g.name, g.lane, g.use_key,
           g.uses, g.arguments, g.options, coalesce(p_error, g.error), g.attempts
    from gone g;
    perform interlock.job_tell_ends(p_namespace, p_ids);
end
$$;

-- Tell who waits for the end of jobs. Comes after the statement that removed them: one who began to wait before that
-- has locked the job and is seen by now; one who begins later sees that it has gone.
create function interlock.job_tell_ends(p_namespace text, p_ids bigint[]) returns void
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
    told record;
begin
    if not exists (select from interlock.job_awaited) then
        return;
    end if;
    for told in
        with waiting as materialized (
            select a.id, a.session from interlock.job_awaited a
            where a.id = any (p_ids) and a.namespace = p_namespace and not a.ended order by a.id, a.session for update
        )
        update interlock.job_awaited a set ended = true from waiting w where a.id = w.id and a.session = w.session
        returning a.session, a.id
    loop
        perform pg_notify('interlock_' || told.session, 'turn ' || told.session || '.j' || told.id);
    end loop;
end
$$;

-- Jobs leave the lines of limits; those behind them may go on.
create function interlock.job_leave_line(p_namespace text, p_ids bigint[]) returns text[]
language plpgsql volatile
as $$
declare
    keys text[];
begin
    with gone as (
        delete from interlock.job_wait w where w.id = any (p_ids) returning w.key
    )
    select array_agg(distinct gone.key) into keys from gone;
    insert into interlock.job_freed (namespace, key, most, per, count)
    select p_namespace, u.key, 0, 0, 0 from unnest(keys) as u (key);
    return keys;
end
$$;

-- Make jobs ready that are due. unfinished: whether there are more; signalled: the lanes of those that have one.
create function interlock.job_promote(
    p_namespace text, p_pools text[], p_now bigint, p_most integer, out unfinished boolean, out signalled text[]
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
    tids tid[];
    found_here tid[];
    of_pool text;
    laned bigint[];
begin
    foreach of_pool in array p_pools loop
        found_here := array(
            select l.ctid from interlock.job_later l
            where l.pool = of_pool and l.at <= p_now order by l.at, l.id limit p_most for update skip locked);
        tids := tids || found_here;
        unfinished := coalesce(unfinished, false) or cardinality(found_here) = p_most;
    end loop;
    with due as (
        delete from interlock.job_later l where l.ctid = any (tids) returning l.*
    ),
    made as (
        insert into interlock.job_ready (pool, sort, id, use_most, class, limited, name, use_key)
        select d.pool, interlock.job_sort(d.at, d.priority), d.id, d.use_most, d.class, d.limited, d.name, d.use_key
        from due d where d.lane is null
    )
    select array_agg(d.id order by d.at, d.id) into laned from due d where d.lane is not null;
    if laned is not null then
        signalled := interlock.job_place(p_namespace, laned);
    end if;
end
$$;

-- Jobs of lanes that are to go on: those without a position take one, in the order given; each lane is signalled. Says
-- which lanes these are.
create function interlock.job_place(p_namespace text, p_ids bigint[]) returns text[]
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
    positions bigint[] := array(select nextval('interlock.job_position') from generate_series(1, cardinality(p_ids)));
    signalled text[];
begin
    with placed as (
        update interlock.job j set position = coalesce(j.position, u.position), apart = false
        from unnest(p_ids, positions) as u (id, position)
        where j.id = u.id returning j.lane, j.position
    ),
    signals as (
        insert into interlock.job_signal as s (namespace, position, lane)
        select p_namespace, min(p.position), p.lane from placed p group by p.lane
        returning s.lane
    )
    select array_agg(s.lane) into signalled from signals s;
    return signalled;
end
$$;

-- Lock limits' keys that are not locked yet, and know those that were not known: in order, or where some are locked
-- already only those that nobody else has. Keys come to be known one claim after the other: who waited for another's new
-- key while holding something could wait for ever. Says which of the wanted ones are locked now.
create function interlock.job_limit_lock(p_namespace text, p_keys text[], p_locked text[]) returns text[]
language plpgsql volatile
as $$
declare
    missing text[] := array(
        select x.key from (
            select u.key from unnest(p_keys) as u (key) except select u.key from unnest(p_locked) as u (key)
        ) x order by x.key collate "C");
begin
    if missing = '{}' then
        return p_locked;
    end if;
    -- Each key is looked up by itself. A join could read every key of the namespace instead: the plan is made while
    -- there are few of them, and is kept.
    if exists (
        select from unnest(missing) as u (key)
        left join lateral (
            select true as known from interlock.job_limit l where l.namespace = p_namespace and l.key = u.key limit 1
        ) l on true
        where l.known is null)
    then
        if p_locked = '{}' then
            perform pg_advisory_xact_lock(1229870159, hashtext(p_namespace));
        end if;
        if pg_try_advisory_xact_lock(1229870159, hashtext(p_namespace)) then
            insert into interlock.job_limit (namespace, key)
            select p_namespace, u.key from unnest(missing) as u (key) on conflict do nothing;
        end if;
    end if;
    if p_locked = '{}' then
        return array(
            select l.key from unnest(missing) with ordinality as u (key, n)
            cross join lateral (
                select l.key from interlock.job_limit l
                where l.namespace = p_namespace and l.key = u.key limit 1 for update
            ) l order by u.n);
    end if;
    return p_locked || array(
        select l.key from unnest(missing) as u (key)
        cross join lateral (
            select l.key from interlock.job_limit l
            where l.namespace = p_namespace and l.key = u.key limit 1 for update skip locked
        ) l);
end
$$;

-- Judge a job whose limits are several or have a pace: take them all, or have it wait in the line of the first that
-- has no room, or leave it as it is if slots are getting scarce. verdict and behind as in job_judge. All of its keys are
-- locked. p_names: what the claimer takes; p_within: after what time it starts the job at the latest, which is what
-- counts for a pace; p_counts: how many were taken of each key in this claim.
create function interlock.job_admit(
    p_namespace text, p_id bigint, p_names text[], p_at_once integer, p_now bigint, p_within bigint, inout p_counts jsonb,
    out verdict smallint, out behind boolean
)
language plpgsql volatile
as $$
declare
    j record;
    mine bigint;
    use record;
    room integer;
    ahead integer;
    done integer;
    longest bigint;
begin
    select x.pool, x.name, x.lane, x.use_key, x.use_most, x.use_per, x.uses, x.ticket into j
    from interlock.job x where x.id = p_id;
    select w.ticket into mine from interlock.job_wait w where w.id = p_id;
    verdict := 1;
    behind := false;
    for use in select u.* from interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u loop
        select r.room into room from interlock.job_room(p_namespace, use.key, use.most, use.per, p_now) r;
        select count(*) into ahead from (
            select from interlock.job_wait w
            where w.key = use.key and w.namespace = p_namespace and w.pool = j.pool and w.name = any (p_names)
              and w.ticket < coalesce(mine, 9223372036854775807) and w.id <> p_id
            limit greatest(room, 0)) x;
        if room <= ahead then
            verdict := 2;
            behind := room > 0;
            mine := coalesce(mine, j.ticket, nextval('interlock.job_ticket'));
            insert into interlock.job_wait as w (id, ticket, per, most, namespace, key, pool, name)
            values (p_id, mine, use.per, use.most, p_namespace, use.key, j.pool, j.name)
            on conflict (id) do update
            set per = excluded.per, most = excluded.most, key = excluded.key, woken = false;
            update interlock.job x set apart = true where x.id = p_id and x.lane is not null;
            return;
        end if;
        done := coalesce((p_counts ->> use.key)::integer, 0);
        if use.per = 0 and done >= greatest(p_at_once, (room + done) / 2) then
            verdict := 0;
        end if;
    end loop;
    if verdict = 0 then
        return;
    end if;
    for use in select u.* from interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u loop
        p_counts := p_counts || jsonb_build_object(use.key, coalesce((p_counts ->> use.key)::integer, 0) + 1);
        perform interlock.job_count(p_namespace, use.key, use.most, use.per, 1);
        select greatest(use.per, k.per, (
                   select max(split_part(f, '/', 2)::bigint) from jsonb_object_keys(k.figures) f))
        into longest from interlock.job_limit k where k.namespace = p_namespace and k.key = use.key;
        if longest > 0 then
            insert into interlock.job_start (namespace, key, at, id, counts_until, claimed_at)
            values (p_namespace, use.key, p_now + p_within, p_id, p_now + p_within + longest, p_now);
        end if;
    end loop;
    delete from interlock.job_wait w where w.id = p_id;
end
$$;

-- Slots for jobs that have no other limit, all of them at once, where nobody is in line and there is plenty; counts: how
-- many of each key. If it is not as simple as that nothing is changed. The caller has locked the keys.
create function interlock.job_take_slots(
    p_namespace text, p_keys text[], p_mosts integer[], p_at_once integer, p_now bigint,
    out taken boolean, out counts jsonb
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
    tids tid[];
    mosts integer[];
    numbers integer[];
begin
    select array_agg(x.tid), array_agg(x.most), array_agg(x.count), bool_and(x.simple), jsonb_object_agg(x.key, x.count)
    into tids, mosts, numbers, taken, counts
    from (
        select l.tid, u.key, u.count, u.most,
               u.most = u.highest and l.figures is null and coalesce(l.per, 0) = 0
               and (l.taken = 0 or l.most = u.most)
               and u.count <= least(u.most - l.taken, greatest(p_at_once, (u.most - l.taken) / 2))
               and not l.waited_for as simple
        from (
            select k.key, count(*)::integer as count, min(k.most) as most, max(k.most) as highest
            from unnest(p_keys, p_mosts) as k (key, most) where k.key is not null group by k.key
        ) u
        cross join lateral (
            select k.ctid as tid, k.taken, k.most, k.per, k.figures,
                   exists (select from interlock.job_wait w where w.key = k.key and w.namespace = p_namespace) as waited_for
            from interlock.job_limit k where k.namespace = p_namespace and k.key = u.key limit 1
        ) l
    ) x;
    if taken then
        update interlock.job_limit l set taken = l.taken + u.count, most = u.most, per = 0
        from unnest(tids, mosts, numbers) as u (tid, most, count)
        where l.ctid = u.tid;
    end if;
    taken := coalesce(taken, false);
end
$$;

-- Judge jobs with limits one after the other, in the order given, which is that in which they would start; p_class 1
-- and 2 only among the first p_at_once. verdicts: 0 stay, 1 take, 2 wait, 3 careful: to be given only to who can
-- start now. All of their keys are locked. Those whose only limit is one on slots are judged together: a place in
-- line before the others, then as many newcomers as there is room for beyond the line. Only jobs with one of p_names,
-- which the claimer takes, hold up others. behind: some wait though there is room, which is for those before them.
create function interlock.job_judge(
    p_namespace text, p_pool text, p_names text[], p_ids bigint[], p_classes smallint[], p_limited boolean[], p_keys text[],
    p_mosts integer[], p_able boolean[], p_at_once integer, p_units integer, p_quota integer, p_now bigint, p_within bigint,
    inout p_counts jsonb, out verdicts smallint[], out behind boolean
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
    units integer := p_units;
    one_by_one boolean;
    verdict smallint;
    k record;
    names text[] := '{}';
    mosts integer[] := '{}';
    rooms integer[] := '{}';
    newcomers integer[] := '{}';
    allowed integer[] := '{}';
    taken integer[] := '{}';
    in_line bigint[] := '{}';
    front bigint[] := '{}';
    room integer;
    line bigint[];
    at integer;
    waits boolean;
    is_behind boolean;
begin
    behind := false;
    verdicts := array_fill(0::smallint, array[cardinality(p_ids)]);
    select bool_or(u.limited and u.key is null) or count(distinct u.key) <> count(distinct (u.key, u.most))
    into one_by_one from unnest(p_limited, p_keys, p_mosts) as u (limited, key, most) where u.limited;
    if not coalesce(one_by_one, false) then
        for k in
            select distinct u.key, u.most from unnest(p_keys, p_mosts, p_able) as u (key, most, able)
            where u.key is not null and u.able
        loop
            select r.room into room from interlock.job_room(p_namespace, k.key, k.most, 0, p_now) r;
            line := array(select f.id from interlock.job_front(p_namespace, k.key, p_pool, p_names, room) f);
            front := front || line;
            at := coalesce((p_counts ->> k.key)::integer, 0);
            names := names || k.key;
            mosts := mosts || k.most;
            rooms := rooms || room;
            newcomers := newcomers || (room - cardinality(line));
            allowed := allowed || (greatest(p_at_once, (room + at) / 2) - at);
            taken := taken || 0;
        end loop;
        in_line := array(select w.id from interlock.job_wait w where w.id = any (p_ids));
    end if;

    for i in 1 .. cardinality(p_ids) loop
        verdict := 1;
        if not p_able[i] or units - p_units >= p_quota
           or p_classes[i] > 0 and units >= p_at_once then
            verdict := 0;
        elsif p_limited[i] and one_by_one then
            select a.verdict, a.behind, a.p_counts into verdict, is_behind, p_counts
            from interlock.job_admit(p_namespace, p_ids[i], p_names, p_at_once, p_now, p_within, p_counts) a;
            behind := behind or is_behind;
        elsif p_limited[i] then
            at := array_position(names, p_keys[i]);
            waits := p_ids[i] = any (in_line);
            if rooms[at] <= 0 or waits and p_ids[i] <> all (front) or not waits and newcomers[at] <= 0 then
                verdict := 2;
                behind := behind or rooms[at] > 0;
            elsif taken[at] >= allowed[at] then
                verdict := case when allowed[at] <= 0 and p_classes[i] = 0 then 3 else 0 end;
            else
                rooms[at] := rooms[at] - 1;
                taken[at] := taken[at] + 1;
                if not waits then
                    newcomers[at] := newcomers[at] - 1;
                end if;
            end if;
        end if;
        verdicts[i] := verdict;
        if verdict = 1 then
            units := units + 1;
        end if;
    end loop;

    for i in 1 .. cardinality(names) loop
        continue when taken[i] = 0;
        perform interlock.job_count(p_namespace, names[i], mosts[i], 0, taken[i]);
        p_counts := p_counts || jsonb_build_object(names[i], coalesce((p_counts ->> names[i])::integer, 0) + taken[i]);
    end loop;
    if not coalesce(one_by_one, false) and cardinality(names) > 0 then
        delete from interlock.job_wait w
        where w.id = any (array(
            select u.id from unnest(p_ids, verdicts) as u (id, verdict)
            where u.verdict = 1 and u.id = any (in_line)));
        -- In two steps, so that tickets are drawn in order.
        insert into interlock.job_wait as w (id, ticket, per, most, namespace, key, pool, name)
        select x.id, coalesce(x.ticket, nextval('interlock.job_ticket')), 0, x.most, p_namespace, x.key, p_pool, x.name
        from (
            select u.id, u.key, u.most, j.ticket, j.name
            from unnest(p_ids, p_keys, p_mosts, verdicts) with ordinality as u (id, key, most, verdict, n)
            join interlock.job j on j.id = u.id
            where u.verdict = 2 order by u.n
        ) x
        on conflict (id) do update set woken = false;
        update interlock.job j set apart = true
        where j.id = any (array(
            select u.id from unnest(p_ids, verdicts) as u (id, verdict) where u.verdict = 2))
          and j.lane is not null;
    end if;
end
$$;
