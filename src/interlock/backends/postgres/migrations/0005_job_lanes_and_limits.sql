-- Make lanes ready that can be; the caller has locked their rows, and whatever it changed before is seen. Lanes of which
-- nothing is left are forgotten. A job whose signal nobody has handled yet may stand before low, so the first such signal
-- bounds it. p_offered: whether some may be offered already. pools, sorts: where something became ready, with the least
-- sort key.
create function interlock.job_advance(
    p_namespace text, p_lanes text[], p_offered boolean, out pools text[], out sorts bigint[]
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
    with head as materialized (
        select l.lane, l.held_since is not null or l.parked_since is not null as held, h.*
        from unnest(p_lanes) as u (lane)
        cross join lateral (select l.* from interlock.job_lane l where l.lane = u.lane and not l.claimed limit 1) l
        left join lateral (
            select j.id, j.pool, j.name, j.due_at, j.priority, j.half, j.paced, j.apart, j.use_key, j.use_most, j.use_per,
                   j.use_key is not null or j.uses is not null as limited
            from interlock.job j
            where j.lane = l.lane
              and j.position >= least(
                  l.low, (select min(s.position) from interlock.job_signal s where s.namespace = p_namespace))
            order by j.position limit 1
        ) h on true
    ),
    emptied as (
        delete from interlock.job_lane l
        where l.lane = any (array(select head.lane from head where head.id is null and not head.held))
    ),
    offer as materialized (
        select h.pool, interlock.job_sort(h.due_at, h.priority) as sort, h.id, interlock.job_class(h.half, h.paced) as class, h.half,
               h.limited, h.name, h.lane, case when h.use_per = 0 then h.use_key end as use_key,
               case when h.use_per = 0 then h.use_most end as use_most, x.tid, x.offered
        from head h
        left join lateral (
            select x.ctid as tid, x.id as offered from interlock.job_ready x where p_offered and x.lane = h.lane limit 1
        ) x on true
        where h.id is not null and not h.held and not h.apart
    ),
    made as (
        insert into interlock.job_ready as r (pool, sort, id, half, use_most, class, limited, name, lane, use_key)
        select o.pool, o.sort, o.id, o.half, o.use_most, o.class, o.limited, o.name, o.lane, o.use_key
        from offer o where o.tid is null
        returning r.pool, r.sort
    ),
    -- Another head than the one offered. A claimer that is at the row finds out by itself, and is not waited for.
    other as materialized (
        select x.ctid as tid, o.pool, o.sort, o.id, o.half, o.use_most, o.class, o.limited, o.name, o.use_key from offer o
        join interlock.job_ready x on x.ctid = o.tid
        where o.offered <> o.id and x.lane = o.lane
        for update of x skip locked
    ),
    moved as (
        update interlock.job_ready r
        set pool = o.pool, sort = o.sort, id = o.id, half = o.half, use_most = o.use_most, class = o.class, limited = o.limited,
            name = o.name, use_key = o.use_key
        from other o where r.ctid = o.tid
        returning r.pool, r.sort
    )
    select array_agg(m.pool), array_agg(m.sort) into pools, sorts
    from (
        select x.pool, min(x.sort) as sort
        from (select made.pool, made.sort from made union all select moved.pool, moved.sort from moved) x
        group by x.pool
    ) m;
end
$$;

-- Lock a lane, and know it if it was not known. Lanes come to be known one by one: who waited for another's new lane while
-- holding something could wait for ever.
create function interlock.job_lane_lock(p_namespace text, p_lane text) returns void
language plpgsql volatile
as $$
begin
    loop
        perform from interlock.job_lane l where l.lane = p_lane for update;
        exit when found;
        perform pg_advisory_xact_lock(1229870158, hashtext(p_namespace));
        insert into interlock.job_lane (lane, low) values (p_lane, 0) on conflict do nothing;
    end loop;
end
$$;

-- Handle signals: know their lanes and make ready those that are idle. One at a time does this in a namespace, and lanes
-- that somebody is at are left for the next time. p_own: lanes that the caller has signalled in this transaction.
-- unfinished: whether anything was left.
create function interlock.job_rouse(
    p_namespace text, p_most integer, p_own text[], out unfinished boolean, out pools text[], out sorts bigint[]
)
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set enable_hashjoin = on
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    tids tid[];
    tid_lanes text[];
    positions bigint[];
    lanes text[];
    lows bigint[];
    owns boolean[];
    known text[];
    claimed text[];
    ours text[];
    handled text[];
begin
    unfinished := true;
    if not pg_try_advisory_xact_lock(1229870158, hashtext(p_namespace)) then
        return;
    end if;
    select array_agg(s.ctid), array_agg(s.lane), array_agg(s.position) into tids, tid_lanes, positions
    from (
        select s.ctid, s.lane, s.position from interlock.job_signal s
        where s.namespace = p_namespace order by s.position limit p_most
    ) s;
    if tids is null then
        unfinished := false;
        return;
    end if;
    select array_agg(x.lane), array_agg(x.low), array_agg(o.lane is not null) into lanes, lows, owns
    from (select t.lane, min(t.low) as low from unnest(tid_lanes, positions) as t (lane, low) group by t.lane) x
    left join (select distinct u.lane from unnest(p_own) as u (lane)) o on o.lane = x.lane;
    known := array(select l.lane from interlock.job_lane l where l.lane = any (lanes));
    -- Whoever ends the run of a claimed lane locks it and then looks what is behind the run. If nobody has locked it now
    -- that look is still to come and will see what is signalled here, so there is nothing to do. It is not kept locked:
    -- whoever ends its run would wait for all of this claim. What the caller signalled itself nobody sees before it
    -- commits: those lanes stay locked.
    begin
        claimed := array(
            select l.lane from interlock.job_lane l join unnest(lanes, lows, owns) as x (lane, low, own) on x.lane = l.lane
            where l.lane = any (lanes) and l.claimed and l.low <= x.low and not x.own for update of l skip locked);
        raise sqlstate 'IL000';
    exception when sqlstate 'IL000' then
        null;
    end;
    ours := array(
        select l.lane from interlock.job_lane l join unnest(lanes, lows, owns) as x (lane, low, own) on x.lane = l.lane
        where l.lane = any (lanes) and (not l.claimed or l.low > x.low or x.own) for update of l skip locked);
    update interlock.job_lane l set low = x.low
    from unnest(lanes, lows) as x (lane, low)
    where l.lane = any (ours) and l.lane = x.lane and l.low > x.low;
    with new as (
        insert into interlock.job_lane as l (lane, low)
        select x.lane, x.low from unnest(lanes, lows) as x (lane, low)
        left join unnest(known) as k (lane) on k.lane = x.lane
        where k.lane is null
        on conflict do nothing
        returning l.lane
    )
    select ours || coalesce(array_agg(new.lane), '{}') into ours from new;
    handled := array(select u.lane from unnest(ours) as u (lane) union select u.lane from unnest(claimed) as u (lane));
    delete from interlock.job_signal s
    where s.ctid = any (array(
        select t.tid from unnest(tids, tid_lanes) as t (tid, lane) join unnest(handled) as h (lane) on h.lane = t.lane));
    unfinished := cardinality(tids) = p_most or cardinality(handled) < cardinality(lanes);
    select a.pools, a.sorts into pools, sorts from interlock.job_advance(p_namespace, ours, true) a;
end
$$;

-- Change how many claimed jobs hold a key with these figures. The caller has locked the key.
create function interlock.job_count(p_namespace text, p_key text, p_most integer, p_per bigint, p_change integer)
returns void
language plpgsql volatile
as $$
declare
    k interlock.job_limit;
    figure text := p_most || '/' || p_per;
    known jsonb;
    number integer;
begin
    update interlock.job_limit l
    set taken = l.taken + p_change, most = p_most, per = p_per
    where l.namespace = p_namespace and l.key = p_key and l.figures is null
      and (l.taken = 0 or (l.most, l.per) = (p_most, p_per));
    if found then
        return;
    end if;
    select * into k from interlock.job_limit l where l.namespace = p_namespace and l.key = p_key;
    known := coalesce(k.figures, jsonb_build_object(k.most || '/' || k.per, k.taken));
    number := coalesce((known ->> figure)::integer, 0) + p_change;
    known := case when number = 0 then known - figure else known || jsonb_build_object(figure, number) end;
    update interlock.job_limit l
    set taken = l.taken + p_change,
        figures = case when (select count(*) from jsonb_object_keys(known)) > 1 then known end,
        most = (select min(split_part(f, '/', 1)::integer) from jsonb_object_keys(known) f),
        per = (select min(split_part(f, '/', 2)::bigint) from jsonb_object_keys(known) f)
    where l.namespace = p_namespace and l.key = p_key;
end
$$;

-- How many more jobs that know these figures may be claimed under a key, by its slots and its paces, and when the next may
-- be if a pace says so. The caller has locked the key; jobs claimed bring their own figures.
create function interlock.job_room(
    p_namespace text, p_key text, p_most integer, p_per bigint, p_now bigint, out room integer, out fit_at bigint
)
language plpgsql volatile
as $$
declare
    k interlock.job_limit;
    figure record;
    starts bigint;
    at_last bigint;
begin
    select * into k from interlock.job_limit l where l.namespace = p_namespace and l.key = p_key;
    room := 1000000000;
    for figure in
        select p_most as most, p_per as per
        union
        select k.most, k.per where k.taken > 0 and k.figures is null
        union
        select split_part(f, '/', 1)::integer, split_part(f, '/', 2)::bigint from jsonb_object_keys(k.figures) f
    loop
        if figure.per = 0 then
            room := least(room, figure.most - k.taken);
            continue;
        end if;
        select count(*) into starts from (
            select from interlock.job_start s
            where s.namespace = p_namespace and s.key = p_key and s.at > p_now - figure.per limit figure.most) s;
        room := least(room, figure.most - starts);
        if starts >= figure.most then
            select s.at into at_last from interlock.job_start s
            where s.namespace = p_namespace and s.key = p_key order by s.at desc offset figure.most - 1 limit 1;
            fit_at := greatest(fit_at, at_last + figure.per);
        end if;
    end loop;
end
$$;

-- Put jobs that were woken where they can be claimed: heads of lanes by a signal, others at once. pools, sorts: where;
-- signalled: the lanes.
create function interlock.job_make_ready(
    p_namespace text, p_ids bigint[], out pools text[], out sorts bigint[], out signalled text[]
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
    with lanes as (
        update interlock.job j set apart = false from unnest(p_ids) as u (id)
        where j.id = u.id and j.lane is not null returning j.lane, j.position, j.pool
    ),
    signals as (
        insert into interlock.job_signal (namespace, position, lane) select p_namespace, l.position, l.lane from lanes l
    ),
    made as (
        insert into interlock.job_ready as r (pool, sort, id, half, use_most, class, limited, name, use_key)
        select j.pool, interlock.job_sort(j.due_at, j.priority), j.id, j.half, case when j.use_per = 0 then j.use_most end,
               interlock.job_class(j.half, j.paced), j.use_key is not null or j.uses is not null, j.name,
               case when j.use_per = 0 then j.use_key end
        from unnest(p_ids) as u (id) join interlock.job j on j.id = u.id
        where j.lane is null
        returning r.pool, r.sort
    )
    select array_agg(x.pool), array_agg(x.sort), (select array_agg(l.lane) from lanes l) into pools, sorts, signalled
    from (
        select m.pool, min(m.sort) as sort
        from (select made.pool, made.sort from made union all select l.pool, 9223372036854775807 from lanes l) m
        group by m.pool
    ) x;
end
$$;

-- The first in a key's line among the jobs of a pool that have one of these names.
create function interlock.job_front(p_namespace text, p_key text, p_pool text, p_names text[], p_most integer)
returns table (id bigint, ticket bigint)
language sql stable
as $$
    select f.id, f.ticket
    from (select distinct u.name from unnest(p_names) as u (name)) n
    cross join lateral (
        select w.id, w.ticket from interlock.job_wait w
        where w.key = p_key and w.namespace = p_namespace and w.pool = p_pool and w.name = n.name
        order by w.ticket limit greatest(p_most, 0)) f
    order by f.ticket limit greatest(p_most, 0)
$$;

-- Wake the first in a key's line as far as there is room, of each kind, that is each name in each queue, for itself: who
-- comes for them may know that one only. And note when a pace lets the next one start. p_pool, p_names: what the caller
-- takes, if it claims: these kinds are one line then, and those for whom there would be room if they were alone come a
-- second later, should the ones before them not have gone. The caller has locked the key.
create function interlock.job_wake(
    p_namespace text, p_key text, p_now bigint, p_pool text, p_names text[], out woken bigint[]
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
    line_pool text := '';
    line_name text := '';
    last bigint;
    w record;
    room integer;
    fit bigint;
    most integer;
    per bigint;
    place integer;
    wake bigint;
begin
    woken := '{}';
    loop
        -- The next kind in the line; in PostgreSQL's order of the index.
        select x.pool, x.name into line_pool, line_name from interlock.job_wait x
        where x.key = p_key and x.namespace = p_namespace and (x.pool, x.name) > (line_pool, line_name)
        order by x.pool, x.name limit 1;
        exit when not found;
        place := 0;
        for w in
            select x.id, x.ticket, x.most, x.per, x.woken from interlock.job_wait x
            where x.key = p_key and x.namespace = p_namespace and x.pool = line_pool and x.name = line_name
            order by x.ticket limit 1000
        loop
            if (w.most, w.per) is distinct from (most, per) then
                select r.room, r.fit_at into room, fit from interlock.job_room(p_namespace, p_key, w.most, w.per, p_now) r;
                most := w.most;
                per := w.per;
                last := null;
            end if;
            if place >= room then
                wake := least(wake, fit);
                exit;
            end if;
            place := place + 1;
            if not w.woken then
                if line_pool = p_pool and line_name = any (p_names) then
                    if last is null then
                        select max(f.ticket) into last
                        from interlock.job_front(p_namespace, p_key, p_pool, p_names, room) f;
                    end if;
                    if w.ticket > last then
                        wake := least(wake, p_now + 1000000);
                        exit;
                    end if;
                end if;
                woken := woken || w.id;
            end if;
        end loop;
    end loop;
    update interlock.job_limit l set wake_at = wake
    where l.namespace = p_namespace and l.key = p_key and l.wake_at is distinct from wake;
    if cardinality(woken) > 0 then
        -- Who is just leaving the line is not waited for; those behind it are seen to at the next claim.
        with here as materialized (
            select x.id from interlock.job_wait x where x.id = any (job_wake.woken) for update skip locked
        ),
        changed as (
            update interlock.job_wait x set woken = true from here where x.id = here.id returning x.id
        ),
        again as (
            insert into interlock.job_freed (namespace, key, most, per, count)
            select p_namespace, p_key, 0, 0, 0
            where (select count(*) from here) < cardinality(job_wake.woken)
        )
        select coalesce(array_agg(changed.id), '{}') into woken from changed;
    end if;
end
$$;

-- Count what came free under keys, and wake who can go on there. p_keys null: wherever something came free or a pace has
-- room again. pools, sorts: where something became ready; signalled: lanes that were.
create function interlock.job_free_up(
    p_namespace text, p_keys text[], p_now bigint, out locked text[], out pools text[], out sorts bigint[],
    out signalled text[]
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
    due text[];
    freed_keys text[];
    numbers bigint[];
    freed record;
    one text;
    woken bigint[] := '{}';
begin
    locked := p_keys;
    if p_keys is null then
        due := array(
            select l.key from interlock.job_limit l
            where l.namespace = p_namespace and l.wake_at <= p_now order by l.wake_at limit 100);
        select array_agg(f.number), array_agg(f.key) into numbers, locked
        from (
            select f.number, f.key from interlock.job_freed f where f.namespace = p_namespace order by f.number limit 2000
        ) f;
        locked := array(select u.key from unnest(locked) as u (key) union select unnest(due));
    end if;
    perform from unnest(array(select u.key from unnest(locked) as u (key) order by u.key collate "C")) as u (key)
    cross join lateral (
        select from interlock.job_limit l where l.namespace = p_namespace and l.key = u.key limit 1 for update
    ) l;
    -- A key that nothing was left of has been forgotten; what is left now is locked.
    freed_keys := locked;
    locked := array(
        select l.key from unnest(freed_keys) as u (key)
        cross join lateral (
            select l.key from interlock.job_limit l where l.namespace = p_namespace and l.key = u.key limit 1
        ) l);
    if p_keys is not null then
        numbers := array(
            select x.number from interlock.job_freed x
            where x.namespace = p_namespace and x.key = any (freed_keys) order by x.number limit 1000);
    end if;
    for freed in
        with gone as (
            delete from interlock.job_freed f where f.namespace = p_namespace and f.number = any (numbers)
            returning f.key, f.most, f.per, f.count
        ),
        each as materialized (
            select l.tid, l.simple and count(*) over (partition by l.tid) = 1 as simple, g.key, g.most, g.per, g.count
            from (
                select gone.key, gone.most, gone.per, sum(gone.count)::integer as count from gone
                where gone.count > 0 group by gone.key, gone.most, gone.per
            ) g
            join unnest(locked) as o (key) on o.key = g.key
            cross join lateral (
                select k.ctid as tid, k.figures is null and (k.most, k.per) = (g.most, g.per) as simple
                from interlock.job_limit k where k.namespace = p_namespace and k.key = g.key limit 1
            ) l
        ),
        counted as (
            update interlock.job_limit l set taken = l.taken - e.count from each e where e.simple and l.ctid = e.tid
        )
        select e.key, e.most, e.per, e.count from each e where not e.simple
    loop
        perform interlock.job_count(p_namespace, freed.key, freed.most, freed.per, -freed.count);
    end loop;
    for one in
        select u.key from unnest(locked) as u (key)
        cross join lateral (
            select from interlock.job_wait w where w.key = u.key and w.namespace = p_namespace limit 1
        ) w
    loop
        woken := woken || interlock.job_wake(p_namespace, one, p_now, null, null);
        due := array_remove(due, one);
    end loop;
    if cardinality(due) > 0 then
        update interlock.job_limit l set wake_at = null where l.namespace = p_namespace and l.key = any (due);
    end if;
    if cardinality(woken) > 0 then
        select m.pools, m.sorts, m.signalled into pools, sorts, signalled
        from interlock.job_make_ready(p_namespace, woken) m;
    end if;
end
$$;
