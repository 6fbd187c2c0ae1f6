-- Enqueue the end hooks of jobs that ended at p_now and are in the history: one job for each hook that is for the state in
-- which its job ended.
-- planner: lookups
create or replace function interlock.job_enqueue_hooks(p_namespace text, p_ids bigint[], p_now bigint) returns void
language plpgsql volatile
as $$
declare
    hooks interlock.new_jobs;
begin
    select array_agg(nextval('interlock.job_id')), array_agg(x.n), array_agg(x.arguments), array_agg(x.cause), array_agg(x.hook ->> 0),
           array_agg(x.hook ->> 1), array_agg((x.hook ->> 2)::integer), array_agg(interlock.on_failure_block()::integer),
           array_agg(false), array_agg(3600::double precision), array_agg(''::text), array_agg(false)
    into hooks.ids, hooks.kinds, hooks.arguments, hooks.causes, hooks.names, hooks.queues, hooks.priorities,
         hooks.on_failures, hooks.coalesces, hooks.keeps, hooks.options, hooks.paced
    from (
        select row_number() over (order by h.id, u.n)::integer as n, u.hook,
               'end:' || h.id as cause,
               json_build_object(
                   'job', h.id, 'name', h.name, 'queue', substr(h.pool, length(p_namespace) + 2),
                   'lane', coalesce(substr(h.lane, length(p_namespace) + 2), ''),
                   'state', interlock.job_ended_state(h.state), 'error', h.error, 'attempt', h.attempt,
                   'superseded_by', h.superseded_by, 'ended_at', p_now / 1e6::float8,
                   'arguments', h.arguments::json)::text as arguments
        from interlock.job_history h
        cross join lateral jsonb_array_elements(h.hooks::jsonb) with ordinality as u (hook, n)
        where h.id = any (p_ids) and h.finished_at = p_now and u.hook -> 3 ? interlock.job_ended_state(h.state)
        order by h.id, u.n
    ) x;
    if hooks.ids is not null then
        perform interlock.job_enqueue(p_namespace, hooks, '{}', p_now / 1e6::float8);
    end if;
end
$$;
