-- After the decisions about jobs with limits: note whether some wait for slots since now, which may have been freed
-- meanwhile unseen, and make waiting jobs ready under keys that have room.
-- planner: caller
create or replace function interlock.job_fetch_wake(
    request interlock.fetch_request, state interlock.fetch_state, p_pool text, ready interlock.ready_jobs,
    p_decisions smallint[], p_keys text[]
) returns interlock.fetch_state
language plpgsql volatile
as $$
declare
    awaited text;
    woken bigint[] := '{}';
begin
    state.queued := state.queued or exists (
        select from unnest(p_decisions, ready.ids) as u (decision, id)
        join interlock.job_limit_wait w on w.id = u.id
        where u.decision = interlock.decision_wait() and w.per = 0);
    for awaited in
        select u.key from unnest(p_keys) as u (key)
        cross join lateral (
            select from interlock.job_limit_wait w where w.key = u.key and w.namespace = request.namespace limit 1
        ) w
        where u.key = any (state.locked)
    loop
        woken := woken || interlock.job_wake(request.namespace, awaited, state.now, p_pool, request.names);
    end loop;
    if cardinality(woken) > 0 then
        state.incomplete := true;
        perform interlock.job_notify(u.pool, u.sort)
        from interlock.job_make_ready(request.namespace, woken) m
        cross join lateral unnest(m.pools, m.sorts) as u (pool, sort)
        where u.pool <> all (request.pools);
    end if;
    return state;
end
$$;
