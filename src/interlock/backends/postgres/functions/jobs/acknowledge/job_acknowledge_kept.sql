-- Change jobs that have not ended, schedule those with a delay, and make those without a lane ready again. Those that have
-- not started can expire again. Returns the lowest sort key that became ready.
-- planner: caller
create or replace function interlock.job_acknowledge_kept(
    p_namespace text, p_session text, decided interlock.decided_jobs, p_now bigint, out ready bigint
)
language plpgsql volatile
as $$
declare
    changed record;
begin
    with kept as (
        update interlock.job j
        set fence = s.fence, last_outcome = s.outcome, error = s.error, attempts = s.attempts,
            attempt = j.attempt + (s.outcome = interlock.outcome_retry())::integer,
            crashes = j.crashes + (s.outcome = interlock.outcome_crashed_alone())::integer,
            half = case when s.unstarted or s.outcome in (interlock.outcome_interrupted(), interlock.outcome_unreadable())
                        then j.half else s.half end,
            parked = case when s.outcome = interlock.outcome_parked() then s.error end,
            expires_at = case when s.unstarted or s.outcome = interlock.outcome_unreadable() then j.expires_at end,
            due_at = case when s.again then p_now + s.delay else j.due_at end,
            position = case when s.outcome = interlock.outcome_retry() and j.on_failure = interlock.on_failure_skip()
                                 and j.lane is not null
                            then case when s.delay <= 0 then nextval('interlock.job_position') end
                            else j.position end,
            apart = j.lane is not null
                    and (s.outcome in (interlock.outcome_parked(), interlock.outcome_unreadable()) or s.delayed
                         or j.unreadable_by is not null),
            unreadable_by = case when s.outcome = interlock.outcome_unreadable()
                                 then interlock.job_unreadable_by(j.unreadable_by, coalesce(s.result, ''))
                                 else j.unreadable_by end,
            unreadable = s.outcome = interlock.outcome_unreadable()
                         or j.unreadable_by is not null and s.outcome <> interlock.outcome_parked() and not s.delayed
        from (
            select u.*, u.outcome in (interlock.outcome_returned(), interlock.outcome_unstarted()) as unstarted,
                   u.outcome in (interlock.outcome_retry(), interlock.outcome_snoozed()) as again,
                   u.outcome in (interlock.outcome_retry(), interlock.outcome_snoozed()) and u.delay > 0 as delayed
            from unnest(decided.ids, decided.fences, decided.outcomes, decided.states, decided.delays, decided.halves,
                        decided.errors, decided.attempts, decided.results)
                 as u (id, fence, outcome, state, delay, half, error, attempts, result)
        ) s
        where j.id = s.id and s.state is null
        returning j.*, s.outcome, s.delayed
    ),
    scheduled as (
        insert into interlock.job_scheduled (pool, at, id, use_max_count, priority, class, limited, name, lane, use_key)
        select k.pool, k.due_at, k.id, case when k.use_per = 0 then k.use_max_count end, k.priority,
               interlock.job_class(k.half, k.paced), k.use_key is not null or k.uses is not null, k.name, k.lane,
               case when k.use_per = 0 then k.use_key end
        from kept k where k.delayed
    ),
    expiring as (
        insert into interlock.job_expiry as e (namespace, at, id)
        select p_namespace, k.expires_at, k.id from kept k where k.expires_at is not null
        on conflict (namespace, at, id) do update set at = excluded.at
    ),
    made as (
        insert into interlock.job_ready as r (pool, sort, id, half, use_max_count, class, limited, name, use_key)
        select k.pool, interlock.job_sort(k.due_at, k.priority), k.id, k.half,
               case when k.use_per = 0 then k.use_max_count end, interlock.job_class(k.half, k.paced),
               k.use_key is not null or k.uses is not null, k.name, case when k.use_per = 0 then k.use_key end
        from kept k
        where k.lane is null and not k.delayed and not k.unreadable and k.outcome <> interlock.outcome_parked()
        returning r.pool, r.sort
    )
    select (select array_agg(m.pool) from made m) as pools, (select array_agg(m.sort) from made m) as sorts,
           (select array_agg(distinct k.pool) from kept k where k.delayed) as scheduled_pools
    into changed;
    ready := (select min(m.sort) from unnest(changed.sorts) as m (sort));
    perform interlock.job_notify_others(p_namespace, p_session, m.pool, min(m.sort))
    from unnest(changed.pools, changed.sorts) as m (pool, sort) group by m.pool;
    -- Also to its own workers: they have to know when to look.
    perform interlock.job_notify(m.pool, 9223372036854775807) from unnest(changed.scheduled_pools) as m (pool);
end
$$;
