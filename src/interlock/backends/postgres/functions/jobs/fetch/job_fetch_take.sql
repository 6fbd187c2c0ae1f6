-- Take picked jobs, at most p_quota of them: of each lane its first job, and what is left of the quota as longer runs,
-- spread evenly; jobs with limits as far as there is room. Jobs that are not taken and do not wait for a limit stay ready.
-- left_some: whether there are any of them.
-- planner: caller
create or replace function interlock.job_fetch_take(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, ready interlock.ready_jobs,
    p_simple boolean, p_half bigint, p_quota integer, out taken interlock.taken_jobs, out left_some boolean
)
language plpgsql volatile
as $$
declare
    n constant integer := cardinality(ready.ids);
    first_run constant integer := state.batches * 10000;
    runs interlock.lane_runs;
    ticketed boolean := false;
    slots_taken boolean := false;
    step record;
begin
    state.batches := state.batches + 1;
    left_some := false;
    if not p_simple then
        state.checked := true;
        if exists (select from unnest(ready.lanes) as u (lane) where u.lane is not null) then
            step := interlock.job_fetch_lanes(request, state, p_pool, p_quota, ready);
            state := step.state;
            ready := step.ready;
            runs := step.runs;
            ticketed := step.ticketed;
        else
            runs := (array_fill(true, array[n]), null, null, array(select generate_series(1, n)), ready.ids);
        end if;
        step := interlock.job_fetch_limits(request, state, p_pool, p_quota, ready, runs.able);
        state := step.state;
        slots_taken := step.slots_taken;
    end if;
    if p_simple or slots_taken and runs.lane_tids is null then
        delete from interlock.job_ready r where r.ctid = any (ready.tids);
        taken := (ready.ids, ready.sorts, array_fill(false, array[n]), array_fill(null::integer, array[n]));
        state.units := state.units + n;
        return;
    end if;
    step := interlock.job_fetch_apply(
        request, state, p_pool, ready, runs, step.decisions, step.keys, first_run, p_half, ticketed);
    left_some := step.units < n;
    state := step.state;
    state.units := state.units + step.units;
    taken := step.taken;
end
$$;
