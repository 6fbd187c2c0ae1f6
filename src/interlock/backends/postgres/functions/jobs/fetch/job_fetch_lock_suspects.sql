-- Decide whether a session may take suspects now, and find the half that it runs. Two workers of one process share a
-- session and fetch side by side: with suspects they take turns. The one that would have to wait looks again soon.
-- planner: caller
create or replace function interlock.job_fetch_lock_suspects(
    request interlock.fetch_request, inout state interlock.fetch_state
)
language plpgsql volatile
as $$
begin
    state.suspects := pg_try_advisory_xact_lock(1229870160, hashtext(request.session));
    state.busy := state.busy or not state.suspects;
    state.half := interlock.job_session_half(request.namespace, request.session);
end
$$;
