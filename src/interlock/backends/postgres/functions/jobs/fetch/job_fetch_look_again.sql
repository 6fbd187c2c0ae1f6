-- After how many seconds another fetch may find more; null if nothing is known to come. p_due_at, p_wake_at: the next times
-- as they were before the fetch.
-- planner: caller
create or replace function interlock.job_fetch_look_again(
    request interlock.fetch_request, state interlock.fetch_state, p_due_at bigint, p_wake_at bigint
) returns double precision
language plpgsql volatile
as $$
declare
    seconds double precision;
begin
    if state.incomplete then
        return 0;
    elsif state.busy then
        return 0.01;
    end if;
    if state.checked or least(p_due_at, p_wake_at) <= state.now then
        select n.due_at, least(n.wake_at, n.expires_at) into p_due_at, p_wake_at
        from interlock.job_next_times(request.namespace, request.pools) n;
    end if;
    seconds := (least(p_due_at, p_wake_at) - state.now) / 1e6;
    return case when state.queued then least(seconds, 0.1) else seconds end;
end
$$;
