-- Read the lanes of ready jobs and lock them. Rows of lanes whose first job is another one are replaced. Where the first
-- job coalesces with those behind it, the row becomes that of the newest one. ticketed: whether a job has a ticket from a
-- limit's queue in which it waited.
-- planner: caller
create or replace function interlock.job_fetch_lanes(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_quota integer,
    inout ready interlock.ready_jobs, out runs interlock.lane_runs, out ticketed boolean
)
language plpgsql volatile
as $$
declare
    lanes constant integer := (select count(u.lane) from unnest(ready.lanes) as u (lane));
    max_run constant integer :=
        1 + least(request.run_length - 1, greatest(0, p_quota - cardinality(ready.ids)) / lanes);
    found record;
begin
    found := interlock.job_read_lanes(request.namespace, p_pool, request.names, ready.ids, ready.lanes, max_run);
    runs := (found.able, found.lane_tids, found.lows, found.units, found.ids);
    ticketed := found.ticketed;
    state.laned := true;
    state.busy := state.busy or found.busy;
    if found.stale is not null then
        delete from interlock.job_ready r where r.lane = any (found.stale);
        perform interlock.job_advance(request.namespace, found.stale, false);
        state.incomplete := true;
    end if;
    if found.wanting is not null then
        found := interlock.job_fetch_coalesce(request, state, p_pool, found.wanting, ready, runs);
        state := found.state;
        ready := found.ready;
        runs := found.runs;
        ticketed := ticketed or true = any (ready.limited);
    end if;
end
$$;
