-- Advance lanes whose run has ended, make jobs ready that wait for the slots that were freed under p_keys, and notify
-- reservations that do. Notifies other sessions, and returns the lowest sort key that became ready.
-- planner: caller
create or replace function interlock.job_acknowledge_wake(
    p_namespace text, p_session text, p_idle text[], p_keys text[], p_now bigint, out ready bigint
)
language plpgsql volatile
as $$
declare
    became_ready record;
begin
    if cardinality(p_idle) > 0 then
        for became_ready in
            select u.pool, u.sort from interlock.job_advance(p_namespace, p_idle, false) a
            cross join lateral unnest(a.pools, a.sorts) as u (pool, sort)
        loop
            ready := least(ready, became_ready.sort);
            perform interlock.job_notify_others(p_namespace, p_session, became_ready.pool, became_ready.sort);
        end loop;
    end if;
    if exists (select from unnest(p_keys) as u (key)
               where exists (select from interlock.limit_use r where r.namespace = p_namespace and r.key = u.key)) then
        perform interlock.limit_notify_waiting(p_namespace, p_keys, p_now);
    end if;
    if exists (select from unnest(p_keys) as u (key)
               where exists (select from interlock.job_limit_wait w where w.key = u.key and w.namespace = p_namespace)) then
        for became_ready in
            select u.pool, u.sort from interlock.job_release_slots(p_namespace, p_keys, p_now) f
            cross join lateral unnest(f.pools, f.sorts) as u (pool, sort)
        loop
            ready := least(ready, became_ready.sort);
            perform interlock.job_notify_others(p_namespace, p_session, became_ready.pool, became_ready.sort);
        end loop;
    end if;
end
$$;
