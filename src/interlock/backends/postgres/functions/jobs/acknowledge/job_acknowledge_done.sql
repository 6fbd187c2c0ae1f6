-- Move jobs without limits that are done to the history.
-- planner: caller
create or replace function interlock.job_acknowledge_done(
    p_namespace text, acknowledged interlock.acknowledgements, fetches interlock.ended_fetches, p_now bigint
) returns void
language plpgsql volatile
as $$
declare
    fences constant bigint[] := fetches.fences;
    session_ids constant bigint[] := fetches.session_ids;
    times constant bigint[] := fetches.times;
    hooked bigint[];
begin
    with gone as (
        delete from interlock.job j
        using unnest(acknowledged.ids, acknowledged.fences, acknowledged.ran, acknowledged.results)
              as s (id, fence, ran, result)
        where j.id = s.id
        returning j.*, s.fence as by_fence, s.ran, s.result
    ),
    results as (
        insert into interlock.job_result (id, kept_until, namespace, result)
        select g.id, p_now + g.keep_result, p_namespace, g.result from gone g where g.result is not null
        on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
    ),
    history as (
        insert into interlock.job_history (
            id, enqueued_at, due_at, fence, keep_result, fetched_at, started_at, finished_at, session_id, kept_until, use_per,
            use_max_count, attempt, priority, crashes, state, last_outcome, on_failure, coalesces, paced, pool, name, lane,
            use_key, uses, arguments, options, error, hooks, cause, attempts)
        select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, times[array_position(fences, g.by_fence)],
               p_now - (g.ran * 1e6)::bigint, p_now, session_ids[array_position(fences, g.by_fence)],
               case when g.result is not null then p_now + g.keep_result end, g.use_per, g.use_max_count, g.attempt + 1,
               g.priority, g.crashes, interlock.state_done(), interlock.outcome_done(), g.on_failure, g.coalesces, g.paced,
               g.pool, g.name, g.lane, g.use_key, g.uses, g.arguments, g.options, '', g.hooks, g.cause, g.attempts
        from gone g
    )
    select array_agg(g.id) into hooked from gone g where g.hooks is not null;
    perform interlock.job_notify_ends(p_namespace, acknowledged.ids);
    if hooked is not null then
        perform interlock.job_enqueue_hooks(p_namespace, hooked, p_now);
    end if;
end
$$;
