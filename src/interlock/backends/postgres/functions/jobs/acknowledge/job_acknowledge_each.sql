-- Acknowledge jobs that were removed from job_fetched, each with its own outcome; see job_acknowledge. Their lanes are
-- locked. A job whose cancellation was requested is cancelled unless it is done.
-- planner: lookups
create or replace function interlock.job_acknowledge_each(
    p_namespace text, p_session text, p_ids bigint[], p_fences bigint[], p_outcomes smallint[], p_ran double precision[],
    p_delays double precision[], p_results text[], p_errors text[], p_traces text[], p_halves bigint[], p_fetches bigint[],
    p_session_ids bigint[], p_times bigint[], p_max_crashes integer, p_now bigint, out keys text[], out ready bigint
)
language plpgsql volatile
as $$
declare
    names constant text[] := array[
        'done', 'failed', 'retry', 'snoozed', 'discarded', 'cancelled', 'parked', 'returned', 'returned', 'crashed',
        'interrupted', 'unreadable', 'crashed'];
    ended bigint[];
    changed record;
begin
    -- A cancellation that is being requested is visible once the job is locked.
    perform from interlock.job j where j.id = any (p_ids) order by j.id for update;
    for changed in
        with s as materialized (
            select u.id, u.fence, u.outcome, u.half, coalesce(u.result, '') as result, u.result is not null as has_result,
                   x.delay, x.fetched_at, x.session_id, x.unstarted, x.crashed_alone, x.delayed, x.state, j.lane,
                   case when x.died then x.fetched_at
                        else p_now - (coalesce(u.ran, 0) * 1e6)::bigint end as began,
                   case when u.outcome = interlock.outcome_done() then ''
                        when x.stopped then j.cancelled
                        when x.unstarted or u.outcome in (interlock.outcome_snoozed(), interlock.outcome_interrupted()) then j.error
                        when x.crashed then 'its worker died'
                        else coalesce(u.error, '') end as error,
                   case when not x.unstarted and u.outcome <> interlock.outcome_done()
                        then interlock.job_attempts(j.attempts, jsonb_build_array(
                            j.attempt + 1,
                            names[case when x.stopped and not x.died then interlock.outcome_cancelled() else u.outcome end + 1],
                            case when x.died then x.fetched_at
                                 else p_now - (coalesce(u.ran, 0) * 1e6)::bigint end,
                            p_now, c.session, c.host, c.pid, c.program, u.fence,
                            case when x.crashed then 'its worker died' else coalesce(u.error, '') end,
                            coalesce(u.trace, '')))
                        else j.attempts end as attempts
            from unnest(p_ids, p_fences, p_outcomes, p_ran, p_delays, p_results, p_errors, p_traces, p_halves)
                 as u (id, fence, outcome, ran, delay, result, error, trace, half)
            join interlock.job j on j.id = u.id
            cross join lateral (
                select j.cancelled is not null and u.outcome <> interlock.outcome_done() as stopped,
                       u.outcome in (interlock.outcome_returned(), interlock.outcome_unstarted()) as unstarted,
                       u.outcome in (interlock.outcome_crashed(), interlock.outcome_crashed_alone()) as crashed,
                       u.outcome = interlock.outcome_crashed_alone() as crashed_alone,
                       u.outcome in (
                           interlock.outcome_crashed(), interlock.outcome_interrupted(), interlock.outcome_crashed_alone()) as died,
                       (coalesce(u.delay, 0) * 1e6)::bigint as delay,
                       u.outcome in (interlock.outcome_retry(), interlock.outcome_snoozed())
                           and (coalesce(u.delay, 0) * 1e6)::bigint > 0 as delayed,
                       case when u.outcome = interlock.outcome_done() then interlock.state_done()
                            when j.cancelled is not null then interlock.state_cancelled()
                            when u.outcome = interlock.outcome_failed() then interlock.state_failed()
                            when u.outcome = interlock.outcome_discarded() then interlock.state_discarded()
                            when u.outcome = interlock.outcome_cancelled() then interlock.state_cancelled()
                            when u.outcome = interlock.outcome_crashed_alone() and j.crashes + 1 >= p_max_crashes
                                then interlock.state_quarantined() end as state,
                       p_times[array_position(p_fetches, u.fence)] as fetched_at,
                       p_session_ids[array_position(p_fetches, u.fence)] as session_id
            ) x
            left join interlock.job_session c on c.id = x.session_id
        ),
        gone as (
            delete from interlock.job j using s where j.id = s.id and s.state is not null
            returning j.*, s.fence as by_fence, s.outcome, s.state, s.fetched_at, s.began, s.session_id, s.error as why,
                      s.crashed_alone, s.attempts as all_attempts, s.has_result, s.result
        ),
        history as (
            insert into interlock.job_history (
                id, enqueued_at, due_at, fence, keep_result, fetched_at, started_at, finished_at, session_id, kept_until, use_per,
                use_max_count, attempt, priority, crashes, state, last_outcome, on_failure, coalesces, paced, pool, name, lane, use_key,
                uses, arguments, options, error, attempts)
            select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, g.fetched_at, g.began, p_now, g.session_id,
                   case when g.state = interlock.state_done() and g.has_result then p_now + g.keep_result end, g.use_per,
                   g.use_max_count, g.attempt + (g.outcome < interlock.outcome_returned())::integer, g.priority,
                   g.crashes + g.crashed_alone::integer,
                   g.state, g.outcome, g.on_failure, g.coalesces, g.paced, g.pool, g.name, g.lane, g.use_key, g.uses,
                   g.arguments, g.options, g.why, g.all_attempts
            from gone g
        ),
        results as (
            insert into interlock.job_result (id, kept_until, namespace, result)
            select g.id, p_now + g.keep_result, p_namespace, g.result from gone g
            where g.state = interlock.state_done() and g.has_result
            on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
        ),
        kept as (
            update interlock.job j
            set fence = s.fence, last_outcome = s.outcome, error = s.error, attempts = s.attempts,
                attempt = j.attempt + (s.outcome = interlock.outcome_retry())::integer,
                crashes = j.crashes + s.crashed_alone::integer,
                half = case when s.unstarted or s.outcome in (interlock.outcome_interrupted(), interlock.outcome_unreadable())
                            then j.half else s.half end,
                parked = case when s.outcome = interlock.outcome_parked() then s.error end,
                due_at = case when s.outcome in (interlock.outcome_retry(), interlock.outcome_snoozed())
                              then p_now + s.delay else j.due_at end,
                position = case when s.outcome = interlock.outcome_retry() and j.on_failure = interlock.on_failure_skip()
                                     and j.lane is not null
                                then case when s.delay <= 0 then nextval('interlock.job_position') end
                                else j.position end,
                apart = j.lane is not null
                        and (s.outcome in (interlock.outcome_parked(), interlock.outcome_unreadable()) or s.delayed
                             or j.unreadable_by is not null),
                unreadable_by = case when s.outcome = interlock.outcome_unreadable()
                                  then interlock.job_unreadable_by(j.unreadable_by, s.result) else j.unreadable_by end,
                unreadable = s.outcome = interlock.outcome_unreadable()
                          or j.unreadable_by is not null and s.outcome <> interlock.outcome_parked() and not s.delayed
            from s where j.id = s.id and s.state is null
            returning j.*, s.outcome, s.delayed
        ),
        scheduled as (
            insert into interlock.job_scheduled (pool, at, id, use_max_count, priority, class, limited, name, lane, use_key)
            select k.pool, k.due_at, k.id, case when k.use_per = 0 then k.use_max_count end, k.priority,
                   interlock.job_class(k.half, k.paced), k.use_key is not null or k.uses is not null, k.name, k.lane,
                   case when k.use_per = 0 then k.use_key end
            from kept k where k.delayed
        ),
        made as (
            insert into interlock.job_ready as r (pool, sort, id, half, use_max_count, class, limited, name, use_key)
            select k.pool, interlock.job_sort(k.due_at, k.priority), k.id, k.half,
                   case when k.use_per = 0 then k.use_max_count end, interlock.job_class(k.half, k.paced),
                   k.use_key is not null or k.uses is not null, k.name, case when k.use_per = 0 then k.use_key end
            from kept k
            where k.lane is null and not k.delayed and not k.unreadable and k.outcome <> interlock.outcome_parked()
            returning r.pool, r.sort
        ),
        freed as (
            insert into interlock.job_slot_freed as f (namespace, key, max_count, per, count)
            select p_namespace, u.key, u.max_count, u.per, count(*)
            from (
                select g.use_key, g.use_max_count, g.use_per, g.uses from gone g
                union all
                select k.use_key, k.use_max_count, k.use_per, k.uses from kept k
            ) x
            cross join lateral interlock.job_uses(x.use_key, x.use_max_count, x.use_per, x.uses) u
            group by u.key, u.max_count, u.per
            returning f.key
        ),
        unstarted as (
            delete from interlock.job_limit_start t
            using s
            join interlock.job j on j.id = s.id
            cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u
            cross join lateral (
                select x.at from interlock.job_limit_start x
                where x.namespace = p_namespace and x.key = u.key and x.id = s.id order by x.fetched_at desc limit 1
            ) last
            where (s.unstarted or s.outcome = interlock.outcome_unreadable())
              and t.namespace = p_namespace and t.key = u.key and t.at = last.at and t.id = s.id
        ),
        parked as (
            update interlock.job_lane l
            set parked_since = coalesce(l.parked_since, p_now), parked_reason = x.why
            from (
                select g.lane, max(g.why) as why from gone g
                where g.lane is not null and g.state in (interlock.state_failed(), interlock.state_quarantined())
                  and g.on_failure = interlock.on_failure_park()
                group by g.lane
            ) x
            where l.lane = x.lane
        )
        select (select array_agg(distinct f.key) from freed f) as keys,
               (select array_agg(g.id) from gone g) as ended,
               (select array_agg(m.pool) from made m) as pools,
               (select array_agg(m.sort) from made m) as sorts,
               (select array_agg(distinct k.pool) from kept k where k.delayed) as scheduled_pools
    loop
        keys := changed.keys;
        ended := changed.ended;
        ready := (select min(m.sort) from unnest(changed.sorts) as m (sort));
        perform interlock.job_notify_others(p_namespace, p_session, m.pool, min(m.sort))
        from unnest(changed.pools, changed.sorts) as m (pool, sort) group by m.pool;
        -- Also to its own workers: they have to know when to look.
        perform interlock.job_notify(m.pool, 9223372036854775807) from unnest(changed.scheduled_pools) as m (pool);
    end loop;
    if ended is not null then
        perform interlock.job_notify_ends(p_namespace, ended);
    end if;
    if interlock.outcome_unreadable() = any (p_outcomes) then
        perform interlock.job_park_unreadable(p_namespace, p_ids, p_now);
    end if;
end
$$;
