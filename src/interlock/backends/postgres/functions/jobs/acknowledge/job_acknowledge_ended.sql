-- Move jobs that have ended to the history, store their results, and park lanes that stop at a failure.
-- planner: caller
create or replace function interlock.job_acknowledge_ended(
    p_namespace text, decided interlock.decided_jobs, p_now bigint
) returns void
language plpgsql volatile
as $$
declare
    ended bigint[];
    hooked bigint[];
begin
    with gone as (
        delete from interlock.job j
        using unnest(decided.ids, decided.fences, decided.outcomes, decided.states, decided.fetched_at, decided.began_at,
                     decided.session_ids, decided.errors, decided.attempts, decided.results)
              as s (id, fence, outcome, state, fetched_at, began_at, session_id, error, attempts, result)
        where j.id = s.id and s.state is not null
        returning j.*, s.fence as by_fence, s.outcome, s.state, s.fetched_at, s.began_at, s.session_id, s.error as why,
                  s.attempts as all_attempts, case when s.state = interlock.state_done() then s.result end as result
    ),
    history as (
        insert into interlock.job_history (
            id, enqueued_at, due_at, fence, keep_result, fetched_at, started_at, finished_at, session_id, kept_until, use_per,
            use_max_count, attempt, priority, crashes, state, last_outcome, on_failure, coalesces, paced, pool, name, lane,
            use_key, uses, arguments, options, error, hooks, cause, attempts)
        select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, g.fetched_at, g.began_at, p_now, g.session_id,
               case when g.result is not null then p_now + g.keep_result end, g.use_per, g.use_max_count,
               g.attempt + (g.outcome < interlock.outcome_returned())::integer, g.priority,
               g.crashes + (g.outcome = interlock.outcome_crashed_alone())::integer, g.state, g.outcome, g.on_failure,
               g.coalesces, g.paced, g.pool, g.name, g.lane, g.use_key, g.uses, g.arguments, g.options, g.why, g.hooks,
               g.cause, g.all_attempts
        from gone g
    ),
    results as (
        insert into interlock.job_result (id, kept_until, namespace, result)
        select g.id, p_now + g.keep_result, p_namespace, g.result from gone g where g.result is not null
        on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
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
    select array_agg(g.id), array_agg(g.id) filter (where g.hooks is not null) into ended, hooked from gone g;
    if ended is not null then
        perform interlock.job_notify_ends(p_namespace, ended);
    end if;
    if hooked is not null then
        perform interlock.job_enqueue_hooks(p_namespace, hooked, p_now);
    end if;
end
$$;
