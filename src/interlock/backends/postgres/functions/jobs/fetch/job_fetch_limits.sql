-- Decide which ready jobs are taken: p_able says which can be, limits and classes decide among them. decisions: one for
-- each; keys: the limits among them. slots_taken: all of them are taken, at once, because slots are plenty.
-- planner: caller
create or replace function interlock.job_fetch_limits(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_quota integer,
    ready interlock.ready_jobs, p_able boolean[], out decisions smallint[], out keys text[], out slots_taken boolean
)
language plpgsql volatile
as $$
declare
    n constant integer := cardinality(ready.ids);
    immediate constant boolean := exists (
        select from unnest(ready.classes) as u (class) where u.class > interlock.class_usual());
    limited constant boolean := true = any (ready.limited);
    waited constant boolean := state.locked = '{}';
    all_locked boolean;
    step record;
begin
    slots_taken := false;
    keys := '{}';
    if limited then
        state.limited := true;
        keys := interlock.job_ready_keys(ready);
        state.locked := interlock.job_limit_lock(request.namespace, keys, state.locked);
        if waited then
            -- Jobs under a rate start now, not when the wait for the key began.
            state.now := greatest(state.now, interlock.micros(interlock.now_or(request.clock)));
        end if;
        all_locked := keys <@ state.locked;
        if all_locked and not immediate and n <= p_quota and not state.counts ?| keys and not false = any (p_able)
           and not exists (
               select from unnest(ready.limited, ready.keys) as u (limited, key) where u.limited and u.key is null)
        then
            step := interlock.job_take_slots(
                request.namespace, ready.keys, ready.maxima, request.at_once, state.now);
            if step.taken then
                state.counts := state.counts || step.counts;
                slots_taken := true;
                decisions := array_fill(interlock.decision_take(), array[n]);
                return;
            end if;
        end if;
        if not all_locked then
            state.busy := true;
            p_able := interlock.job_locked_only(ready, p_able, state.locked);
        end if;
    end if;
    if limited or immediate then
        step := interlock.job_check_limits(request, state, p_pool, p_quota, ready, p_able);
        state := step.state;
        decisions := step.decisions;
    else
        decisions := array(
            select case when u.able then interlock.decision_take() else interlock.decision_leave() end
            from unnest(p_able) with ordinality as u (able, n) order by u.n);
    end if;
end
$$;
