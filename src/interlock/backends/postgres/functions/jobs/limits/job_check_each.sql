-- Decide about ready jobs one by one: some of them have several limits, or one that is not on slots, or differing figures
-- for one key. See job_check_limits.
create or replace function interlock.job_check_each(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_quota integer,
    ready interlock.ready_jobs, p_able boolean[], out decisions smallint[]
)
language plpgsql volatile
as $$
declare
    units integer := state.units;
    decision smallint;
    admitted record;
begin
    decisions := '{}';
    for i in 1 .. cardinality(ready.ids) loop
        decision := interlock.decision_take();
        if not p_able[i] or units - state.units >= p_quota
           or ready.classes[i] > interlock.class_usual() and units >= request.at_once then
            decision := interlock.decision_leave();
        elsif ready.limited[i] then
            admitted := interlock.job_admit(request, ready.ids[i], state.now, state.counts);
            decision := admitted.decision;
            state.counts := admitted.counts;
            state.incomplete := state.incomplete or admitted.behind;
        end if;
        decisions := decisions || decision;
        if decision = interlock.decision_take() then
            units := units + 1;
        end if;
    end loop;
end
$$;
