-- Of claimed jobs, those that no other transaction has locked, nor their lanes, nor another of them in the same lane. These
-- are locked now. The caller has locked their claims. p_wait: whether to wait up to two seconds for the others first.
create function interlock.job_unlocked(p_ids bigint[], p_wait boolean) returns bigint[]
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    lanes text[] := array(
        select l.lane from interlock.job_lane l
        where l.lane in (select j.lane from interlock.job j where j.id = any (p_ids)));
    free_lanes text[];
    free bigint[];
begin
    if p_wait then
        begin
            perform from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update;
            perform from interlock.job j where j.id = any (p_ids) order by j.id for update;
            return p_ids;
        exception when lock_not_available then
            null;
        end;
    end if;
    free_lanes := array(
        select l.lane from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update skip locked);
    lanes := array(select unnest(lanes) except select unnest(free_lanes));
    free := array(
        select j.id from interlock.job j
        where j.id = any (p_ids) and (j.lane is null or j.lane <> all (lanes)) order by j.id for update skip locked);
    lanes := lanes || array(
        select distinct j.lane from interlock.job j
        where j.id = any (p_ids) and j.lane is not null and j.id <> all (free));
    return array(
        select j.id from interlock.job j where j.id = any (free) and (j.lane is null or j.lane <> all (lanes)));
end
$$;

-- Return all that a session has claimed, but these, as never started; with p_turn only what it claimed up to that one, and
-- no claim up to it takes place any more. Says how many, and how many were left because other transactions have locked them
-- or their lanes.
create function interlock.job_hand_back(
    p_namespace text, p_session text, p_but bigint[], p_turn bigint, p_most_crashes integer, p_given double precision,
    out returned integer, out blocked integer
)
language plpgsql volatile
as $$
declare
    ids bigint[];
    fences bigint[];
    unlocked bigint[];
begin
    returned := 0;
    blocked := 0;
    if p_turn is not null then
        insert into interlock.job_crew as c (namespace, session, host, pid, program, seen_at, barred)
        select s.namespace, s.id, s.host, s.pid, s.program, interlock.micros(interlock.now_or(p_given)), p_turn
        from interlock.session s where s.namespace = p_namespace and s.id = p_session
        on conflict (namespace, session) do update set barred = greatest(c.barred, excluded.barred);
    end if;
    perform from interlock.job_claimed c
    where c.session = p_session and c.namespace = p_namespace order by c.fence for update;
    select array_agg(o.id), array_agg(c.fence) into ids, fences
    from interlock.job_claimed c
    cross join lateral unnest(c.ids) as o (id)
    where c.session = p_session and c.namespace = p_namespace and (p_turn is null or c.turn <= p_turn)
      and not exists (select from unnest(p_but) as b (id) where b.id = o.id);
    if ids is null then
        return;
    end if;
    unlocked := interlock.job_unlocked(ids, true);
    if cardinality(unlocked) < cardinality(ids) then
        blocked := cardinality(ids) - cardinality(unlocked);
        select array_agg(u.id), array_agg(u.fence) into ids, fences
        from unnest(ids, fences) as u (id, fence) where u.id = any (unlocked);
        if ids is null then
            return;
        end if;
    end if;
    returned := cardinality(ids);
    perform interlock.job_settle(
        p_namespace, p_session, ids, fences, array_fill(8::smallint, array[cardinality(ids)]), null, null, null, null, null,
        p_most_crashes, p_given);
end
$$;

-- Take jobs from sessions that have ended. All may have been running, but of a run only the first; that one comes last, so
-- that a run taken in parts has one crash. Where the process had been told to end nothing changes for them. Otherwise those
-- that may have been running become suspects: what was none before, and what was of the same half, is a group that is parted
-- into two new halves. The crash counts only for a job that was the only suspect, or was no suspect and had no other beside
-- it. If a session is rescued in parts each part has its own groups, and only in the first one a crash can count.
create function interlock.job_rescue(
    p_namespace text, p_most integer, p_most_crashes integer, p_given double precision
) returns table (id bigint, name text, session text, crashes integer, quarantined boolean, half bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    now_is timestamptz := interlock.now_or(p_given);
    crews bigint[];
    dead bigint[];
    ids bigint[];
    fences bigint[];
    outcomes smallint[];
    unlocked bigint[];
    halves bigint[];
begin
    -- One rescuer at a time for each session, so that all it had is judged together.
    crews := array(
        select w.id from interlock.job_crew w
        where w.id = any (array(
            select distinct c.crew from interlock.job_claimed c
            where c.namespace = p_namespace
              and not exists (
                  select from interlock.session s
                  where s.namespace = c.namespace and s.id = c.session and s.expires_at > now_is)))
        order by w.id for update skip locked);
    if crews = '{}' then
        return;
    end if;
    dead := array(
        select c.fence from interlock.job_claimed c where c.crew = any (crews) order by c.fence for update skip locked);
    -- After a stall nobody may have been able to say that it lives; those who do come back now.
    if dead = '{}' or clock_timestamp() - statement_timestamp() > interval '1 second' then
        return;
    end if;
    -- What another transaction has locked is left for the next time.
    unlocked := interlock.job_unlocked(
        array(select unnest(c.ids) from interlock.job_claimed c where c.fence = any (dead)), false);
    with held as materialized (
        -- Also what somebody else is at, as it was there when the session ended.
        select c.crew, c.fence, o.id, j.half, j.position, w.leaving, interlock.job_sort(j.due_at, j.priority) as sort,
               j.lane is null or j.position = min(j.position) over (partition by c.crew, j.lane) as ran
        from interlock.job_claimed c
        join interlock.job_crew w on w.id = c.crew
        cross join lateral unnest(c.ids) as o (id)
        join interlock.job j on j.id = o.id
        where c.crew = any (crews)
    ),
    seen as materialized (
        select h.crew, count(*) as ran, count(h.half) as suspects from held h where h.ran group by h.crew
    ),
    taken as materialized (
        select h.* from held h where h.fence = any (dead) and h.id = any (unlocked)
        order by h.ran, h.half is null, h.position desc nulls first, h.id limit p_most
    ),
    groups as materialized (
        select g.crew, g.half, nextval('interlock.job_group') as number
        from (select distinct t.crew, t.half from taken t where t.ran and not t.leaving) g
    ),
    placed as materialized (
        select t.id, t.fence, t.crew, t.half is not null as suspect,
               2 * g.number + (2 * (row_number() over w - 1) >= count(*) over (partition by g.number))::integer as half
        from taken t join groups g on g.crew = t.crew and g.half is not distinct from t.half
        where t.ran and not t.leaving
        window w as (partition by g.number order by t.sort, t.id)
    ),
    noted as (
        update interlock.job_crew w set crashed = true where w.id = any (array(select p.crew from placed p))
    )
    select array_agg(x.id), array_agg(x.fence), array_agg(x.outcome), array_agg(x.half) into ids, fences, outcomes, halves
    from (
        select t.id, t.fence, case when t.ran then 10 else 8 end::smallint as outcome, null::bigint as half
        from taken t where not t.ran or t.leaving
        union all
        select p.id, p.fence,
               case when not w.crashed and case when s.suspects > 0 then p.suspect and s.suspects = 1 else s.ran = 1 end
                    then 12 else 9 end::smallint, p.half
        from placed p
        join seen s on s.crew = p.crew
        join interlock.job_crew w on w.id = p.crew
    ) x;
    if ids is null then
        return;
    end if;
    return query
        select j.id, j.name::text, c.session, j.crashes + (u.outcome = 12)::integer, x.quarantined,
               case when x.quarantined or j.cancelled is not null then null
                    when u.outcome in (8, 10) then j.half else u.half end
        from unnest(ids, fences, outcomes, halves) as u (id, fence, outcome, half)
        join interlock.job j on j.id = u.id
        join interlock.job_claimed c on c.fence = u.fence
        cross join lateral (
            select u.outcome = 12 and j.cancelled is null and j.crashes + 1 >= p_most_crashes as quarantined) x;
    perform interlock.job_settle(
        p_namespace, '', ids, fences, outcomes, null, null, null, null, null, p_most_crashes, p_given, halves);
end
$$;

-- How an unfinished job stands, as people see it.
create function interlock.job_state(j interlock.job, p_namespace text) returns text
language sql stable
as $$
    select case
        when j.parked is not null then 'parked'
        when exists (select from interlock.job_claimed c where c.namespace = p_namespace and j.id = any (c.ids)) then 'running'
        when exists (
            select from interlock.job_later l where l.pool = j.pool and l.at = j.due_at and l.id = j.id) then 'later'
        when exists (select from interlock.job_wait w where w.id = j.id and not w.woken) then 'waiting'
        when j.lane is null then 'ready'
        when exists (
            select from interlock.job x
            where x.lane = j.lane and x.position < coalesce(j.position, 9223372036854775807)) then 'behind'
        when exists (
            select from interlock.job_lane l
            where l.lane = j.lane and (l.held_since is not null or l.parked_since is not null)) then 'held'
        else 'ready' end
$$;

-- Take a job that is not claimed from where it stands; false if it changed its place meanwhile. A job that was woken stands
-- in its line and among the ready ones, and leaves the latter first. The lane, if it has one, is locked.
create function interlock.job_uproot(p_namespace text, j interlock.job) returns boolean
language plpgsql volatile
as $$
begin
    delete from interlock.job_ready r
    where r.pool = j.pool and r.class in (0, 1, 2) and r.sort = interlock.job_sort(j.due_at, j.priority) and r.id = j.id;
    if found then
        perform interlock.job_leave_line(p_namespace, array[j.id]);
        return true;
    end if;
    delete from interlock.job_later l where l.pool = j.pool and l.at = j.due_at and l.id = j.id;
    if found then
        return true;
    end if;
    if exists (select from interlock.job_wait w where w.id = j.id and (not w.woken or j.lane is not null)) then
        delete from interlock.job_wait w where w.id = j.id and (not w.woken or j.lane is not null);
        if not found then
            return false;
        end if;
        insert into interlock.job_freed (namespace, key, most, per, count)
        select p_namespace, u.key, 0, 0, 0 from interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u;
        return true;
    end if;
    return j.lane is not null or j.parked is not null or j.refused;
end
$$;

create function interlock.job_of(p_namespace text, p_id bigint) returns interlock.job
language sql stable
as $$
    select j.* from interlock.job j
    where j.id = p_id and j.pool >= p_namespace || '/' and j.pool < p_namespace || '0'
$$;

create function interlock.job_ended_state(p_state smallint) returns text
language sql immutable
as $$ select (array['done', 'failed', 'discarded', 'cancelled', 'superseded', 'quarantined'])[p_state + 1] $$;

-- What follows when a person has changed something: the lane, which is locked, goes on if it can, and so do those who are
-- in line where something came free. Workers are told.
create function interlock.job_go_on(p_namespace text, p_lane text, p_keys text[], p_now bigint) returns void
language plpgsql volatile
as $$
begin
    if p_lane is not null then
        perform interlock.job_tell(u.pool, u.sort)
        from interlock.job_advance(p_namespace, array[p_lane], true) a
        cross join lateral unnest(a.pools, a.sorts) as u (pool, sort);
    end if;
    if exists (select from unnest(p_keys) as u (key)
               where exists (select from interlock.job_wait w where w.key = u.key and w.namespace = p_namespace)) then
        perform interlock.job_tell(u.pool, u.sort)
        from interlock.job_free_up(p_namespace, p_keys, p_now) f
        cross join lateral unnest(f.pools, f.sorts) as u (pool, sort);
    end if;
end
$$;

-- Tell a session that something it has claimed is wanted back, also if it hears no messages. It names the claim: the same
-- session may claim the job again.
create function interlock.job_take_away(
    p_namespace text, p_session text, p_id bigint, p_fence bigint, p_why text, p_now bigint
) returns void
language plpgsql volatile
as $$
declare
    whose text := p_session || '.' || p_fence || '.j' || p_id;
begin
    insert into interlock.forced as f (namespace, session, owner, why, at)
    values (p_namespace, p_session, whose, p_why, to_timestamp(p_now / 1e6))
    on conflict (namespace, session, owner) do update set why = excluded.why, at = excluded.at;
    perform pg_notify('interlock_' || p_session, left('lost ' || whose || ' ' || p_why, 2000));
end
$$;

-- End a job that does not run, ask for the end of one that does. Says the state after; null if it is not known.
create function interlock.job_cancel(
    p_namespace text, p_id bigint, p_reason text, p_by text, p_given double precision
) returns text
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_given));
    j interlock.job;
    locked text;
    c record;
    told text := 'cancelled by ' || p_by || ': ' || p_reason;
    ended smallint;
begin
    perform interlock.durably();
    if not exists (select from interlock.job_namespace n where n.namespace = p_namespace) then
        insert into interlock.job_namespace values (p_namespace) on conflict do nothing;
    end if;
    loop
        j := interlock.job_of(p_namespace, p_id);
        if j.id is null then
            select h.state into ended from interlock.job_history h
            where h.id = p_id and h.pool >= p_namespace || '/' and h.pool < p_namespace || '0';
            perform interlock.job_go_on(p_namespace, locked, null, now_us);
            return interlock.job_ended_state(ended);
        end if;
        if j.lane is not null then
            locked := j.lane;
            perform interlock.job_lane_lock(p_namespace, locked);
            j := interlock.job_of(p_namespace, p_id);
            continue when j.id is null;
        elsif j.parked is not null or j.refused then
            select * into j from interlock.job x
            where x.id = p_id and (x.parked is not null or x.refused) for update;
            continue when not found;
        end if;
        select x.fence, x.session into c from interlock.job_claimed x
        where x.namespace = p_namespace and p_id = any (x.ids);
        if found then
            -- Unless that claim ends just now.
            update interlock.job x set cancelled = told where x.id = p_id and x.fence < c.fence;
            continue when not found;
            perform interlock.job_take_away(p_namespace, c.session, p_id, c.fence, told, now_us);
            return 'running';
        end if;
        exit when interlock.job_uproot(p_namespace, j);
    end loop;
    perform interlock.job_end(p_namespace, array[p_id], 3::smallint, null, told, now_us);
    perform interlock.job_go_on(
        p_namespace, j.lane, array(select u.key from interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u order by 1),
        now_us);
    return 'cancelled';
end
$$;

-- Make a job ready now that waits for its time, is parked, or has ended without being done. Says the state after; null if
-- it is not known.
create function interlock.job_retry(p_namespace text, p_id bigint, p_given double precision) returns text
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_given));
    j interlock.job;
    h interlock.job_history;
    locked text;
begin
    perform interlock.durably();
    loop
        j := interlock.job_of(p_namespace, p_id);
        if j.id is null then
            select * into h from interlock.job_history x
            where x.id = p_id and x.pool >= p_namespace || '/' and x.pool < p_namespace || '0';
            if not found or h.state in (0, 4) then
                perform interlock.job_go_on(p_namespace, locked, null, now_us);
                return interlock.job_ended_state(h.state);
            end if;
            if h.lane is not null then
                locked := h.lane;
                perform interlock.job_lane_lock(p_namespace, locked);
            end if;
            delete from interlock.job_history x where x.id = p_id and x.finished_at = h.finished_at;
            continue when not found;
            delete from interlock.job_result r where r.id = p_id;
            insert into interlock.job as x (
                id, position, enqueued_at, due_at, fence, keep_result, use_per, use_most, priority, settled, failing,
                coalesces, paced, pool, name, lane, use_key, uses, arguments, options, attempts)
            values (h.id, case when h.lane is not null then nextval('interlock.job_position') end, h.enqueued_at, now_us,
                    h.fence, h.keep_result, h.use_per, h.use_most, h.priority, h.settled, h.failing, h.coalesces, h.paced,
                    h.pool, h.name, h.lane, h.use_key, h.uses, h.arguments, h.options, h.attempts)
            returning x.* into j;
            exit;
        end if;
        if j.lane is not null then
            locked := j.lane;
            perform interlock.job_lane_lock(p_namespace, locked);
            j := interlock.job_of(p_namespace, p_id);
            continue when j.id is null;
        end if;
        if j.parked is null then
            delete from interlock.job_later l where l.pool = j.pool and l.at = j.due_at and l.id = p_id;
            if not found then
                perform interlock.job_go_on(p_namespace, locked, null, now_us);
                return interlock.job_state(j, p_namespace);
            end if;
        end if;
        update interlock.job x
        set parked = null, refused = false, refused_by = null, due_at = now_us, apart = false,
            position = case when x.lane is not null then coalesce(x.position, nextval('interlock.job_position')) end
        where x.id = p_id and x.parked is not distinct from j.parked
        returning x.* into j;
        exit when found;
    end loop;
    if j.lane is null then
        perform interlock.job_tell(u.pool, u.sort)
        from interlock.job_make_ready(p_namespace, array[p_id]) m
        cross join lateral unnest(m.pools, m.sorts) as u (pool, sort);
    else
        perform interlock.job_go_on(p_namespace, j.lane, null, now_us);
    end if;
    return interlock.job_state(j, p_namespace);
end
$$;

-- Let no further job of a lane start.
create function interlock.job_hold(
    p_namespace text, p_lane text, p_reason text, p_by text, p_given double precision
) returns void
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_given));
    held text := p_namespace || '/' || p_lane;
    keys text[];
    in_line bigint[];
    tickets bigint[];
begin
    perform interlock.durably();
    perform interlock.job_lane_lock(p_namespace, held);
    update interlock.job_lane l
    set held_since = coalesce(l.held_since, now_us), held_by = p_by, held_reason = p_reason where l.lane = held;
    delete from interlock.job_ready r where r.lane = held;
    -- A head that waits for a limit does so again when the lane is released; others do not wait for it.
    select array_agg(w.id), array_agg(w.ticket) into in_line, tickets
    from (
        select x.id from interlock.job x
        where x.lane = held and x.position is not null order by x.position limit 10
    ) j
    join interlock.job_wait w on w.id = j.id;
    if in_line is not null then
        keys := interlock.job_leave_line(p_namespace, in_line);
        update interlock.job j set apart = false, ticket = u.ticket
        from unnest(in_line, tickets) as u (id, ticket) where j.id = u.id;
    end if;
    perform interlock.job_take_away(
        p_namespace, c.session, o.id, c.fence, 'held by ' || p_by || ': ' || p_reason, now_us)
    from interlock.job_claimed c
    cross join lateral unnest(c.ids) as o (id)
    join interlock.job j on j.id = o.id
    where c.namespace = p_namespace and c.runs is not null and j.lane = held;
    perform interlock.job_go_on(p_namespace, null, keys, now_us);
end
$$;

-- End the hold and the parking of a lane; false if there was neither.
create function interlock.job_release(p_namespace text, p_lane text, p_given double precision) returns boolean
language plpgsql volatile
as $$
declare
    held text := p_namespace || '/' || p_lane;
begin
    perform interlock.durably();
    update interlock.job_lane l
    set held_since = null, held_by = null, held_reason = null, parked_since = null, parked_reason = null
    where l.lane = held and (l.held_since is not null or l.parked_since is not null);
    if not found then
        return false;
    end if;
    perform interlock.job_go_on(p_namespace, held, null, interlock.micros(interlock.now_or(p_given)));
    return true;
end
$$;

-- Have a session told of the end of jobs; says which have ended already. Whoever ends one of them meanwhile is waited for,
-- or waits for this and then sees who is to be told.
create function interlock.job_await(p_namespace text, p_session text, p_ids bigint[]) returns bigint[]
language plpgsql volatile
as $$
declare
    unfinished bigint[];
    over bigint[];
begin
    perform set_config('synchronous_commit', 'off', true);
    delete from interlock.job_awaited a where a.session = p_session and a.namespace = p_namespace and a.ended;
    insert into interlock.job_awaited (id, session, namespace)
    select distinct u.id, p_session, p_namespace from unnest(p_ids) as u (id) on conflict do nothing;
    unfinished := array(
        select j.id from interlock.job j
        where j.id = any (p_ids) and j.pool >= p_namespace || '/' and j.pool < p_namespace || '0'
        order by j.id for key share);
    over := array(select distinct u.id from unnest(p_ids) as u (id) where u.id <> all (unfinished));
    delete from interlock.job_awaited a where a.session = p_session and a.id = any (over);
    return over;
end
$$;

-- Note that a session's process was told to end, or that it goes on after all. Kept apart from the session, which is gone
-- when it matters.
create function interlock.job_session_leaving(
    p_namespace text, p_session text, p_leaving boolean, p_given double precision
) returns void
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    insert into interlock.job_crew as c (namespace, session, host, pid, program, seen_at, leaving)
    select s.namespace, s.id, s.host, s.pid, s.program, interlock.micros(interlock.now_or(p_given)), p_leaving
    from interlock.session s where s.namespace = p_namespace and s.id = p_session
    on conflict (namespace, session) do update set leaving = excluded.leaving;
end
$$;

-- Say what a session works on.
create function interlock.job_attend(
    p_namespace text, p_session text, p_queues text[], p_names text[], p_runners integer, p_reads jsonb
) returns void
language sql volatile
as $$
    insert into interlock.job_worker (namespace, session, queues, names, runners, reads)
    values (p_namespace, p_session, p_queues, p_names, p_runners, p_reads)
    on conflict (namespace, session) do update
    set queues = excluded.queues, names = excluded.names, runners = excluded.runners, reads = excluded.reads
$$;

-- What a session said and waits for ends with it. Its jobs are rescued by who is alive.
create function interlock.job_session_end(p_namespace text, p_session text) returns void
language plpgsql volatile
as $$
begin
    delete from interlock.job_worker w where w.namespace = p_namespace and w.session = p_session;
    -- In order, as those are told whose jobs end.
    perform from interlock.job_awaited a
    where a.session = p_session and a.namespace = p_namespace order by a.id for update;
    delete from interlock.job_awaited a where a.session = p_session and a.namespace = p_namespace;
end
$$;

-- Remove a bounded number of traces of sessions that have ended, of starts that count no more, and of limits' keys that
-- nothing is left of. Whoever is at a key meanwhile is not waited for.
create function interlock.job_sweep(p_namespace text, p_given double precision) returns integer
language plpgsql volatile
set lock_timeout = '1s'
as $$
declare
    now_is timestamptz := interlock.now_or(p_given);
    now_us bigint := interlock.micros(now_is);
    gone record;
    idle text[];
    removed integer;
    swept integer := 0;
begin
    for gone in
        select w.session from interlock.job_worker w where w.namespace = p_namespace
        union
        select a.session from interlock.job_awaited a where a.namespace = p_namespace
        except
        select s.id from interlock.session s where s.namespace = p_namespace and s.expires_at > now_is
        limit 1000
    loop
        perform interlock.job_session_end(p_namespace, gone.session);
        swept := swept + 1;
    end loop;
    delete from interlock.job_start t
    where (t.namespace, t.key, t.at, t.id) in (
        select x.namespace, x.key, x.at, x.id from interlock.job_start x
        where x.namespace = p_namespace and x.counts_until <= now_us limit 10000);
    get diagnostics removed = row_count;
    swept := swept + removed;
    -- In two steps: what was put on a key before it was locked is seen only after that.
    select array_agg(x.key) into idle from (
        select l.key from interlock.job_limit l
        where l.namespace = p_namespace and l.taken = 0 and l.wake_at is null
          and not exists (select from interlock.job_wait w where w.key = l.key and w.namespace = l.namespace)
        limit 1000 for update skip locked) x;
    delete from interlock.job_limit l
    where l.namespace = p_namespace and l.key = any (idle) and l.taken = 0
      and not exists (select from interlock.job_wait w where w.key = l.key and w.namespace = l.namespace)
      and not exists (select from interlock.job_freed f where f.namespace = l.namespace and f.key = l.key);
    get diagnostics removed = row_count;
    return swept + removed;
end
$$;

-- Before a claim, in its transaction: make those refused jobs ready that this worker's versions have not refused, and park
-- those that no live worker can read. p_reads: names of jobs, p_prints: the fingerprints of their handlers. Nobody else
-- sees what is ready by this; what the claim does not take is refused again. marks: from where the claim has to look.
create function interlock.job_readmit(
    p_namespace text, p_pools text[], p_reads text[], p_prints text[], p_most integer, p_marks bigint[],
    p_given double precision, out ids bigint[], out marks bigint[]
)
language plpgsql volatile
as $$
declare
    most constant integer := 100;
    now_us bigint := interlock.micros(interlock.now_or(p_given));
    others bigint[] := '{}';
    lanes text[];
    by_now text;
    one record;
begin
    ids := '{}';
    marks := p_marks;
    if not exists (select from interlock.job j where j.refused and j.pool = any (p_pools) limit 1) then
        return;
    end if;
    -- By the sets of versions that refused them, of which there are few.
    for one in
        select x.pool, u.name, u.print from unnest(p_pools) as x (pool)
        cross join unnest(p_reads, p_prints) as u (name, print)
    loop
        by_now := '';
        loop
            by_now := (select min(j.refused_by) from interlock.job j
                       where j.refused and j.pool = one.pool and j.name = one.name and j.refused_by > by_now);
            exit when by_now is null;
            if position('"' || one.print || '"' in by_now) = 0 then
                ids := ids || array(
                    select j.id from interlock.job j
                    where j.refused and j.pool = one.pool and j.name = one.name and j.refused_by = by_now
                    order by j.id limit greatest(0, least(most, p_most) - cardinality(ids)));
            else
                others := others || array(
                    select j.id from interlock.job j
                    where j.refused and j.pool = one.pool and j.name = one.name and j.refused_by = by_now
                      and j.parked is null
                    order by j.id limit greatest(0, most - cardinality(others)));
            end if;
        end loop;
    end loop;
    if others <> '{}' then
        perform interlock.job_park_refused(p_namespace, others, now_us);
    end if;
    if ids = '{}' then
        return;
    end if;
    lanes := array(select distinct j.lane from interlock.job j where j.id = any (ids) and j.lane is not null order by j.lane);
    perform from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update;
    with found as (
        select j.id from interlock.job j where j.id = any (ids) and j.refused order by j.id for update skip locked
    ),
    changed as (
        update interlock.job j set refused = false, parked = null, apart = false from found f
        where j.id = f.id returning j.id, j.lane
    )
    select coalesce(array_agg(c.id), '{}'), array_agg(distinct c.lane) filter (where c.lane is not null)
    into ids, lanes from changed c;
    perform interlock.job_make_ready(
        p_namespace, array(select j.id from interlock.job j where j.id = any (ids) and j.lane is null));
    if lanes is not null then
        perform interlock.job_advance(p_namespace, lanes, true);
    end if;
    marks := array_fill(-9223372036854775808, array[cardinality(p_pools)]);
end
$$;

-- After that claim: what was made ready for it and not taken stands apart again.
create function interlock.job_refuse_again(p_namespace text, p_ids bigint[], p_taken bigint[]) returns boolean
language plpgsql volatile
as $$
declare
    left_over bigint[] := array(select u.id from unnest(p_ids) as u (id) where u.id <> all (p_taken));
begin
    if left_over <> '{}' then
        perform interlock.job_uproot(p_namespace, j) from interlock.job j where j.id = any (left_over);
        update interlock.job j set refused = true, apart = j.lane is not null where j.id = any (left_over);
    end if;
    return true;
end
$$;
