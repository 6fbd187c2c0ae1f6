-- Decide together about ready jobs whose only limit, if any, is one on slots: jobs in the queue of a key before the
-- others, then as many newcomers as there is room for behind the queue. Where slots get scarce, a job is left for a worker
-- that can start it now. See job_check_limits.
-- planner: index_reads
create or replace function interlock.job_check_slots(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_quota integer,
    ready interlock.ready_jobs, p_able boolean[], out decisions smallint[]
)
language plpgsql volatile
as $$
declare
    units integer := state.units;
    decision smallint;
    key record;
    slots interlock.slot_counts := interlock.job_count_slots(request, state, p_pool, ready, p_able);
    in_queue constant bigint[] := array(select w.id from interlock.job_limit_wait w where w.id = any (ready.ids));
    at integer;
    waits boolean;
begin
    decisions := '{}';
    for i in 1 .. cardinality(ready.ids) loop
        decision := interlock.decision_take();
        if not p_able[i] or units - state.units >= p_quota
           or ready.classes[i] > interlock.class_usual() and units >= request.at_once then
            decision := interlock.decision_leave();
        elsif ready.limited[i] then
            at := array_position(slots.keys, ready.keys[i]);
            waits := ready.ids[i] = any (in_queue);
            if slots.rooms[at] <= 0 or waits and ready.ids[i] <> all (slots.first)
               or not waits and slots.newcomers[at] <= 0 then
                decision := interlock.decision_wait();
                state.incomplete := state.incomplete or slots.rooms[at] > 0;
            elsif slots.taken[at] >= slots.allowed[at] then
                decision := case when slots.allowed[at] <= 0 and ready.classes[i] = interlock.class_usual()
                                 then interlock.decision_defer() else interlock.decision_leave() end;
            else
                slots.rooms[at] := slots.rooms[at] - 1;
                slots.taken[at] := slots.taken[at] + 1;
                slots.newcomers[at] := slots.newcomers[at] - (not waits)::integer;
            end if;
        end if;
        decisions := decisions || decision;
        if decision = interlock.decision_take() then
            units := units + 1;
        end if;
    end loop;
    for i in 1 .. coalesce(cardinality(slots.keys), 0) loop
        continue when slots.taken[i] = 0;
        perform interlock.job_count(request.namespace, slots.keys[i], slots.maxima[i], 0, slots.taken[i]);
        state.counts := state.counts || jsonb_build_object(
            slots.keys[i], coalesce((state.counts ->> slots.keys[i])::integer, 0) + slots.taken[i]);
    end loop;
    if cardinality(slots.keys) > 0 then
        perform interlock.job_queue_for_slots(request.namespace, p_pool, ready, decisions, in_queue);
    end if;
end
$$;
