-- Write the decisions about ready jobs: rows that are taken or wait for a limit leave job_ready, lanes are marked as
-- fetched, and jobs that others wait behind become ready where there is room. units: how many rows were taken.
-- planner: caller
create or replace function interlock.job_fetch_apply(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, ready interlock.ready_jobs,
    runs interlock.lane_runs, p_decisions smallint[], p_keys text[], p_first_run integer, p_half bigint, p_ticketed boolean,
    out taken interlock.taken_jobs, out units integer
)
language plpgsql volatile
as $$
declare
    done record;
begin
    delete from interlock.job_ready r where r.ctid = any (array(
        select u.tid from unnest(p_decisions, ready.tids) as u (decision, tid)
        where u.decision in (interlock.decision_take(), interlock.decision_wait())));
    if runs.lane_tids is not null then
        update interlock.job_lane l set fetched = true, low = u.low
        from unnest(p_decisions, runs.lane_tids, runs.lows) as u (decision, tid, low)
        where u.decision = interlock.decision_take() and u.tid is not null and l.ctid = u.tid;
    end if;
    update interlock.job_ready r set class = interlock.class_immediate() where r.ctid = any (array(
        select u.tid from unnest(p_decisions, ready.tids) as u (decision, tid)
        where u.decision = interlock.decision_defer()));
    select coalesce(array_agg(q.id), '{}') as ids, coalesce(array_agg(ready.sorts[q.unit]), '{}') as sorts,
           coalesce(array_agg(ready.classes[q.unit] > interlock.class_usual()), '{}') as immediate,
           coalesce(array_agg(case when ready.lanes[q.unit] is not null then p_first_run + q.unit end), '{}') as runs
    into done
    from unnest(runs.units, runs.ids) as q (unit, id)
    where p_decisions[q.unit] = interlock.decision_take();
    taken := (done.ids, done.sorts, done.immediate, done.runs);
    select count(*) filter (where u.decision = interlock.decision_take()) as taken,
           bool_or(u.decision = interlock.decision_take()) filter (where u.class = interlock.class_suspect()) as suspects,
           bool_or(u.decision = interlock.decision_wait()) filter (where u.class = interlock.class_suspect()) as waiting,
           bool_or(u.decision = interlock.decision_wait()) filter (where u.class = interlock.class_immediate()) as blocked
    into done
    from unnest(p_decisions, ready.classes) as u (decision, class);
    units := done.taken;
    if done.suspects then
        state.half := p_half;
    end if;
    -- If all suspects of the half wait for a limit, another half may run.
    state.incomplete := state.incomplete or coalesce(done.waiting and not done.suspects, false);
    -- Only as many jobs that must start now were looked at as can start. If some of them wait, there may be others.
    state.incomplete := state.incomplete or coalesce(
        done.blocked and cardinality(ready.ids) >= least(request.max_jobs, request.at_once - state.units), false);
    if p_ticketed then
        update interlock.job j set ticket = null where j.id = any (taken.ids) and j.ticket is not null;
    end if;
    if cardinality(p_keys) > 0 then
        state := interlock.job_fetch_wake(request, state, p_pool, ready, p_decisions, p_keys);
    end if;
end
$$;
