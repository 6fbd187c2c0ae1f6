-- Take jobs out of the claims that have these fences; matched: which of them, by their places in the arrays, null if it is
-- all. laned, limited: whether jobs of those claims may have lanes or limits. fences, crews, times: the claims' own.
-- last_ones: of each run that is over with this, one job.
create function interlock.job_unclaim(
    p_ids bigint[], p_fences bigint[], out matched integer[], out laned boolean, out limited boolean, out fences bigint[],
    out crews bigint[], out times bigint[], out last_ones bigint[]
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
    places integer[];
begin
    with held as materialized (
        select c.fence, c.ids, c.runs, c.crew, c.claimed_at, c.limited from interlock.job_claimed c
        where c.fence = any (p_fences) order by c.fence for update
    ),
    given as materialized (
        select o.fence, o.id, o.run, s.n
        from (select h.fence, unnest(h.ids) as id, unnest(h.runs) as run from held h) o
        left join unnest(p_ids, p_fences) with ordinality as s (id, fence, n) on s.id = o.id and s.fence = o.fence
    ),
    remaining as materialized (
        select g.fence, array_agg(g.id) filter (where g.n is null) as ids,
               array_agg(g.run) filter (where g.n is null) as runs, count(g.n) as matched
        from given g group by g.fence
    ),
    emptied as (
        delete from interlock.job_claimed c
        where c.fence = any (array(select r.fence from remaining r where r.ids is null))
    ),
    changed as (
        update interlock.job_claimed c set ids = r.ids, runs = case when c.runs is not null then r.runs end from remaining r
        where c.fence = any (array(select x.fence from remaining x where x.ids is not null and x.matched > 0))
          and r.fence = c.fence
    )
    select array_agg(h.fence), array_agg(h.crew), array_agg(h.claimed_at), bool_or(h.runs is not null), bool_or(h.limited),
           (select array_agg(g.n) from given g where g.n is not null),
           (select array_agg(x.id)
            from (select min(g.id) as id from given g where g.run is not null
                  group by g.fence, g.run having count(*) = count(g.n)) x)
    into fences, crews, times, laned, limited, places, last_ones
    from held h;
    if coalesce(cardinality(places), 0) < cardinality(p_ids) then
        matched := coalesce(places, '{}');
    end if;
end
$$;

-- Tell workers of a queue that something became ready, unless it is only the session's own ones, which are told otherwise.
create function interlock.job_tell_others(p_namespace text, p_session text, p_pool text, p_sort bigint) returns void
language plpgsql volatile
as $$
begin
    if not exists (select from interlock.job_worker w where w.namespace = p_namespace and w.session = p_session)
       or exists (select from interlock.job_worker w where w.namespace = p_namespace and w.session <> p_session) then
        perform interlock.job_tell(p_pool, p_sort);
    end if;
end
$$;

-- Of settlements whose claims were not there, the places of those that were not settled the same way before.
create function interlock.job_refused(p_ids bigint[], p_fences bigint[], p_outcomes smallint[], p_matched integer[])
returns integer[]
language sql stable
as $$
    select array_agg(u.n)
    from unnest(p_ids, p_fences, p_outcomes) with ordinality as u (id, fence, outcome, n)
    where u.n <> all (p_matched)
      and not exists (
          select from interlock.job j
          where j.id = u.id and j.fence = u.fence and j.settled = coalesce(u.outcome, 0))
      and not exists (
          select from interlock.job_history h
          where h.id = u.id and h.fence = u.fence and h.settled = coalesce(u.outcome, 0))
$$;

-- Add an attempt to those kept: the first one and the last ones, 50 in all.
create function interlock.job_attempts(p_attempts jsonb, p_attempt jsonb) returns jsonb
language sql immutable
as $$
    select case when jsonb_array_length(p_attempts) >= 50 then p_attempts - 1 else coalesce(p_attempts, '[]') end
           || jsonb_build_array(p_attempt)
$$;

-- Add a version to those that refused a job; the last ten are kept.
create function interlock.job_refused_by(p_refused_by text, p_version text) returns text
language sql immutable
as $$
    select jsonb_agg(x.v order by x.v ->> 0)::text
    from (
        select u.v from jsonb_array_elements(coalesce(p_refused_by, '[]')::jsonb || jsonb_build_array(coalesce(nullif(p_version, ''), '["", ""]')::jsonb))
                        with ordinality as u (v, n)
        order by u.n desc limit 10
    ) x
$$;

-- Park those of these jobs that are refused and that no live worker can read, with the versions that refused them.
create function interlock.job_park_refused(p_namespace text, p_ids bigint[], p_now bigint) returns void
language sql volatile
as $$
    update interlock.job j
    set parked = 'No live worker can read its arguments; refused by '
                 || (select string_agg('version ' || (v ->> 1) || ' (' || (v ->> 0) || ')', ', ')
                     from jsonb_array_elements(j.refused_by::jsonb) v)
                 || ': ' || j.error
    where j.id = any (p_ids) and j.refused and j.parked is null
      and not exists (
          select from interlock.job_worker w
          join interlock.session s on s.namespace = w.namespace and s.id = w.session
          where w.namespace = p_namespace and s.expires_at > to_timestamp(p_now / 1e6)
            and substr(j.pool, length(p_namespace) + 2) = any (w.queues) and w.reads ? j.name
            and position('"' || (w.reads -> j.name ->> 0) || '"' in j.refused_by) = 0)
$$;

-- End claims that have been taken out of job_claimed, each in its own way; see job_settle. Their lanes are locked. A job
-- whose end was asked for is cancelled, unless it is done.
create function interlock.job_settle_each(
    p_namespace text, p_session text, p_ids bigint[], p_fences bigint[], p_outcomes smallint[], p_ran double precision[],
    p_delays double precision[], p_results text[], p_errors text[], p_traces text[], p_halves bigint[], p_claims bigint[],
    p_crews bigint[], p_times bigint[], p_most_crashes integer, p_now bigint, out keys text[], out ready bigint
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
    names constant text[] := array[
        'done', 'failed', 'retry', 'snoozed', 'discarded', 'cancelled', 'parked', 'returned', 'returned', 'crashed',
        'interrupted', 'unreadable', 'crashed'];
    ended bigint[];
    tell record;
begin
    -- An end that is being asked for is seen once the job is locked.
    perform from interlock.job j where j.id = any (p_ids) order by j.id for update;
    for tell in
        with s as materialized (
            select u.id, u.fence, u.outcome, u.half, coalesce(u.result, '') as result, u.result is not null as has_result,
                   (coalesce(u.delay, 0) * 1e6)::bigint as delay, x.claimed_at, x.crew, x.stopped, x.state, j.lane,
                   case when u.outcome in (9, 10, 12) then x.claimed_at
                        else p_now - (coalesce(u.ran, 0) * 1e6)::bigint end as began,
                   case when u.outcome = 0 then ''
                        when x.stopped then j.cancelled
                        when u.outcome in (3, 7, 8, 10) then j.error
                        when u.outcome in (9, 12) then 'its worker died'
                        else coalesce(u.error, '') end as error,
                   case when u.outcome not in (0, 7, 8)
                        then interlock.job_attempts(j.attempts, jsonb_build_array(
                            j.attempt + 1,
                            names[case when x.stopped and u.outcome not in (9, 10, 12) then 6 else u.outcome + 1 end],
                            case when u.outcome in (9, 10, 12) then x.claimed_at
                                 else p_now - (coalesce(u.ran, 0) * 1e6)::bigint end,
                            p_now, c.session, c.host, c.pid, c.program, u.fence,
                            case when u.outcome in (9, 12) then 'its worker died' else coalesce(u.error, '') end,
                            coalesce(u.trace, '')))
                        else j.attempts end as attempts
            from unnest(p_ids, p_fences, p_outcomes, p_ran, p_delays, p_results, p_errors, p_traces, p_halves)
                 as u (id, fence, outcome, ran, delay, result, error, trace, half)
            join interlock.job j on j.id = u.id
            cross join lateral (
                select j.cancelled is not null and u.outcome <> 0 as stopped,
                       case when u.outcome = 0 then 0 when j.cancelled is not null then 3 when u.outcome = 1 then 1
                            when u.outcome = 4 then 2 when u.outcome = 5 then 3
                            when u.outcome = 12 and j.crashes + 1 >= p_most_crashes then 5 end as state,
                       p_times[array_position(p_claims, u.fence)] as claimed_at,
                       p_crews[array_position(p_claims, u.fence)] as crew
            ) x
            left join interlock.job_crew c on c.id = x.crew
        ),
        gone as (
            delete from interlock.job j using s where j.id = s.id and s.state is not null
            returning j.*, s.fence as by_fence, s.outcome, s.state, s.claimed_at, s.began, s.crew, s.error as why,
                      s.attempts as all_attempts, s.has_result, s.result
        ),
        history as (
            insert into interlock.job_history (
                id, enqueued_at, due_at, fence, keep_result, claimed_at, started_at, finished_at, crew, kept_until, use_per,
                use_most, attempt, priority, crashes, state, settled, failing, coalesces, paced, pool, name, lane, use_key,
                uses, arguments, options, error, attempts)
            select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, g.claimed_at, g.began, p_now, g.crew,
                   case when g.state = 0 and g.has_result then p_now + g.keep_result end, g.use_per, g.use_most,
                   g.attempt + (g.outcome < 7)::integer, g.priority, g.crashes + (g.outcome = 12)::integer,
                   g.state, g.outcome, g.failing, g.coalesces, g.paced, g.pool, g.name, g.lane, g.use_key, g.uses,
                   g.arguments, g.options, g.why, g.all_attempts
            from gone g
        ),
        results as (
            insert into interlock.job_result (id, kept_until, namespace, result)
            select g.id, p_now + g.keep_result, p_namespace, g.result from gone g where g.state = 0 and g.has_result
            on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
        ),
        kept as (
            update interlock.job j
            set fence = s.fence, settled = s.outcome, attempt = j.attempt + (s.outcome = 2)::integer,
                crashes = j.crashes + (s.outcome = 12)::integer, error = s.error, attempts = s.attempts,
                half = case when s.outcome in (7, 8, 10, 11) then j.half else s.half end,
                parked = case when s.outcome = 6 then s.error end,
                due_at = case when s.outcome in (2, 3) then p_now + s.delay else j.due_at end,
                position = case when s.outcome = 2 and j.failing = 1 and j.lane is not null
                                then case when s.delay <= 0 then nextval('interlock.job_position') end
                                else j.position end,
                apart = j.lane is not null
                        and (s.outcome in (6, 11) or s.outcome in (2, 3) and s.delay > 0 or j.refused_by is not null),
                refused_by = case when s.outcome = 11 then interlock.job_refused_by(j.refused_by, s.result)
                                  else j.refused_by end,
                refused = s.outcome = 11
                          or j.refused_by is not null and s.outcome <> 6 and not (s.outcome in (2, 3) and s.delay > 0)
            from s where j.id = s.id and s.state is null
            returning j.*, s.outcome, s.outcome in (2, 3) and s.delay > 0 as waits
        ),
        later as (
            insert into interlock.job_later (pool, at, id, use_most, priority, class, limited, name, lane, use_key)
            select k.pool, k.due_at, k.id, case when k.use_per = 0 then k.use_most end, k.priority,
                   interlock.job_class(k.half, k.paced), k.use_key is not null or k.uses is not null, k.name, k.lane,
                   case when k.use_per = 0 then k.use_key end
            from kept k where k.waits
        ),
        made as (
            insert into interlock.job_ready as r (pool, sort, id, half, use_most, class, limited, name, use_key)
            select k.pool, interlock.job_sort(k.due_at, k.priority), k.id, k.half,
                   case when k.use_per = 0 then k.use_most end, interlock.job_class(k.half, k.paced), k.use_key is not null or k.uses is not null, k.name,
                   case when k.use_per = 0 then k.use_key end
            from kept k where k.lane is null and not k.waits and not k.refused and k.outcome <> 6
            returning r.pool, r.sort
        ),
        freed as (
            insert into interlock.job_freed as f (namespace, key, most, per, count)
            select p_namespace, u.key, u.most, u.per, count(*)
            from (
                select g.use_key, g.use_most, g.use_per, g.uses from gone g
                union all
                select k.use_key, k.use_most, k.use_per, k.uses from kept k
            ) x
            cross join lateral interlock.job_uses(x.use_key, x.use_most, x.use_per, x.uses) u
            group by u.key, u.most, u.per
            returning f.key
        ),
        unstarted as (
            delete from interlock.job_start t
            using s
            join interlock.job j on j.id = s.id
            cross join lateral interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u
            cross join lateral (
                select x.at from interlock.job_start x
                where x.namespace = p_namespace and x.key = u.key and x.id = s.id order by x.claimed_at desc limit 1
            ) last
            where s.outcome in (7, 8, 11) and t.namespace = p_namespace and t.key = u.key and t.at = last.at and t.id = s.id
        ),
        parked as (
            update interlock.job_lane l
            set parked_since = coalesce(l.parked_since, p_now), parked_reason = x.why
            from (
                select g.lane, max(g.why) as why from gone g
                where g.lane is not null and g.state in (1, 5) and g.failing = 2 group by g.lane
            ) x
            where l.lane = x.lane
        )
        select (select array_agg(distinct f.key) from freed f) as keys,
               (select array_agg(g.id) from gone g) as ended,
               (select array_agg(m.pool) from made m) as pools,
               (select array_agg(m.sort) from made m) as sorts,
               (select array_agg(distinct k.pool) from kept k where k.waits) as later_pools
    loop
        keys := tell.keys;
        ended := tell.ended;
        ready := (select min(m.sort) from unnest(tell.sorts) as m (sort));
        perform interlock.job_tell_others(p_namespace, p_session, m.pool, min(m.sort))
        from unnest(tell.pools, tell.sorts) as m (pool, sort) group by m.pool;
        -- Also its own workers: they have to know when to look.
        perform interlock.job_tell(m.pool, 9223372036854775807) from unnest(tell.later_pools) as m (pool);
    end loop;
    if ended is not null then
        perform interlock.job_tell_ends(p_namespace, ended);
    end if;
    if 11 = any (p_outcomes) then
        perform interlock.job_park_refused(p_namespace, p_ids, p_now);
    end if;
end
$$;

-- End claims, each of the arrays' members one. outcomes: 0 done, 1 failed, 2 retry, 3 snoozed, 4 discarded, 5 cancelled,
-- 6 parked, 7 returned; of those that come from nobody's own settlement 8 handed back, 9 crashed, 10 interrupted (by
-- a process that had been told to end); 11 unreadable, by the version that p_results gives as [fingerprint, version]; 12
-- crashed as the only suspect. p_halves: of those that crashed, the half that they belong to from now on. p_outcomes null: all are
-- done; arrays that say nothing may be null too. refused: places of those whose claim had ended before, unless the same
-- was settled then. ready: the least sort key of what became ready, null if nothing did. Waits for a row no longer than two
-- seconds: the caller then looks which of them are locked, and settles the others.
create function interlock.job_settle(
    p_namespace text, p_session text, p_ids bigint[], p_fences bigint[], p_outcomes smallint[], p_ran double precision[],
    p_delays double precision[], p_results text[], p_errors text[], p_traces text[], p_most_crashes integer,
    p_given double precision, p_halves bigint[] default null, out refused integer[], out ready bigint
)
language plpgsql volatile
set lock_timeout = '2s'
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    now_us bigint;
    c record;
    lanes text[];
    idle text[];
    keys text[];
    tell record;
begin
    perform interlock.durably();
    select * into c from interlock.job_unclaim(p_ids, p_fences);
    now_us := interlock.micros(interlock.now_or(p_given));
    if c.matched is not null then
        refused := interlock.job_refused(p_ids, p_fences, p_outcomes, c.matched);
        select array_agg(u.id), array_agg(u.fence), array_agg(u.outcome), array_agg(u.ran), array_agg(u.delay),
               array_agg(u.result), array_agg(u.error), array_agg(u.trace), array_agg(u.half)
        into p_ids, p_fences, p_outcomes, p_ran, p_delays, p_results, p_errors, p_traces, p_halves
        from (
            select u.* from unnest(p_ids, p_fences, coalesce(p_outcomes, array_fill(0::smallint, array[cardinality(p_ids)])),
                                   p_ran, p_delays, p_results, p_errors, p_traces, p_halves)
                            with ordinality as u (id, fence, outcome, ran, delay, result, error, trace, half, n)
            where u.n = any (c.matched) order by u.n
        ) u;
        if p_ids is null then
            return;
        end if;
    end if;
    if c.laned then
        idle := array(
            select j.lane from unnest(c.last_ones) as u (id)
            cross join lateral (select j.lane from interlock.job j where j.id = u.id limit 1) j order by j.lane);
        lanes := idle;
        if p_outcomes is not null then
            lanes := array(
                select distinct j.lane from unnest(p_ids) as u (id)
                cross join lateral (select j.lane from interlock.job j where j.id = u.id limit 1) j
                where j.lane is not null order by j.lane);
        end if;
        perform from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update;
        update interlock.job_lane l set claimed = false where l.lane = any (idle);
    end if;

    if p_outcomes is not null then
        select m.keys, m.ready into keys, ready
        from interlock.job_settle_each(
            p_namespace, p_session, p_ids, p_fences, p_outcomes, p_ran, p_delays, p_results, p_errors, p_traces, p_halves,
            c.fences, c.crews, c.times, p_most_crashes, now_us) m;
    elsif c.laned or c.limited then
        with gone as (
            delete from interlock.job j using unnest(p_ids, p_fences, p_ran, p_results) as s (id, fence, ran, result)
            where j.id = s.id
            returning j.*, s.fence as by_fence, s.ran, s.result
        ),
        kept as (
            insert into interlock.job_history (
                id, enqueued_at, due_at, fence, keep_result, claimed_at, started_at, finished_at, crew, kept_until, use_per, use_most,
                attempt, priority, crashes, state, settled, failing, coalesces, paced, pool, name, lane, use_key, uses,
                arguments, options, error, attempts)
            select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, c.times[array_position(c.fences, g.by_fence)],
                   now_us - (g.ran * 1e6)::bigint, now_us, c.crews[array_position(c.fences, g.by_fence)],
                   case when g.result is not null then now_us + g.keep_result end, g.use_per,
                   g.use_most, g.attempt + 1, g.priority, g.crashes, 0, 0, g.failing, g.coalesces, g.paced, g.pool, g.name,
                   g.lane, g.use_key, g.uses, g.arguments, g.options, '', g.attempts
            from gone g
        ),
        results as (
            insert into interlock.job_result (id, kept_until, namespace, result)
            select g.id, now_us + g.keep_result, p_namespace, g.result from gone g where g.result is not null
            on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
        ),
        freed as (
            insert into interlock.job_freed as f (namespace, key, most, per, count)
            select p_namespace, u.key, u.most, u.per, sum(x.count)
            from (
                select g.use_key, g.use_most, g.use_per, g.uses, count(*) as count from gone g
                where c.limited group by g.use_key, g.use_most, g.use_per, g.uses
            ) x
            cross join lateral interlock.job_uses(x.use_key, x.use_most, x.use_per, x.uses) u
            group by u.key, u.most, u.per
            returning f.key
        )
        select array_agg(distinct f.key) into keys from freed f;
    else
        with gone as (
            delete from interlock.job j using unnest(p_ids, p_fences, p_ran, p_results) as s (id, fence, ran, result)
            where j.id = s.id
            returning j.*, s.fence as by_fence, s.ran, s.result
        ),
        results as (
            insert into interlock.job_result (id, kept_until, namespace, result)
            select g.id, now_us + g.keep_result, p_namespace, g.result from gone g where g.result is not null
            on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
        )
        insert into interlock.job_history (
            id, enqueued_at, due_at, fence, keep_result, claimed_at, started_at, finished_at, crew, kept_until, use_per, use_most,
            attempt, priority, crashes, state, settled, failing, coalesces, paced, pool, name, lane, use_key, uses,
            arguments, options, error, attempts)
        select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, c.times[array_position(c.fences, g.by_fence)],
               now_us - (g.ran * 1e6)::bigint, now_us, c.crews[array_position(c.fences, g.by_fence)],
               case when g.result is not null then now_us + g.keep_result end, g.use_per,
               g.use_most, g.attempt + 1, g.priority, g.crashes, 0, 0, g.failing, g.coalesces, g.paced, g.pool, g.name,
               g.lane, g.use_key, g.uses, g.arguments, g.options, '', g.attempts
        from gone g;
    end if;
    if p_outcomes is null then
        perform interlock.job_tell_ends(p_namespace, p_ids);
    end if;

    if cardinality(idle) > 0 then
        for tell in
            select u.pool, u.sort from interlock.job_advance(p_namespace, idle, false) a
            cross join lateral unnest(a.pools, a.sorts) as u (pool, sort)
        loop
            ready := least(ready, tell.sort);
            perform interlock.job_tell_others(p_namespace, p_session, tell.pool, tell.sort);
        end loop;
    end if;
    if exists (select from unnest(keys) as u (key)
               where exists (select from interlock.job_wait w where w.key = u.key and w.namespace = p_namespace)) then
        for tell in
            select u.pool, u.sort from interlock.job_free_up(p_namespace, keys, now_us) f
            cross join lateral unnest(f.pools, f.sorts) as u (pool, sort)
        loop
            ready := least(ready, tell.sort);
            perform interlock.job_tell_others(p_namespace, p_session, tell.pool, tell.sort);
        end loop;
    end if;
end
$$;
