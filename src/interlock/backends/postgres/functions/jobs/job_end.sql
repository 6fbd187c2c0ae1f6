-- End jobs that are not fetched: superseded by another job, cancelled or expired. Sessions that watch their end are notified.
-- planner: lookups
create or replace function interlock.job_end(
    p_namespace text, p_ids bigint[], p_state smallint, p_superseded_by bigint, p_error text, p_now bigint
) returns void
language plpgsql volatile
as $$
declare
    hooked bigint[];
begin
    perform from interlock.job j where j.id = any (p_ids) order by j.id for update;
    with gone as (
        delete from interlock.job j using unnest(p_ids) as u (id) where j.id = u.id returning j.*
    ),
    history as (
        insert into interlock.job_history (
            id, enqueued_at, due_at, fence, keep_result, finished_at, superseded_by, use_per, use_max_count, attempt, priority,
            crashes, state, last_outcome, on_failure, coalesces, paced, pool, name, lane, use_key, uses, arguments, options, error,
            hooks, cause, attempts)
        select g.id, g.enqueued_at, g.due_at, g.fence, g.keep_result, p_now, p_superseded_by, g.use_per, g.use_max_count, g.attempt,
               g.priority, g.crashes, p_state, g.last_outcome, g.on_failure, g.coalesces, g.paced, g.pool, g.name, g.lane, g.use_key,
               g.uses, g.arguments, g.options,
               interlock.job_end_error(p_state, p_error, g.error, g.expires_at), g.hooks, g.cause, g.attempts
        from gone g
    )
    select array_agg(g.id) into hooked from gone g where g.hooks is not null;
    perform interlock.job_notify_ends(p_namespace, p_ids);
    if hooked is not null then
        perform interlock.job_enqueue_hooks(p_namespace, hooked, p_now);
    end if;
end
$$;
