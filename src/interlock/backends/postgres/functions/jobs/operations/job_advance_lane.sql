-- Continue after an operation: make the lane, which is locked, ready if it can run, and wake jobs that wait for what
-- was freed. Workers are notified.
create or replace function interlock.job_advance_lane(p_namespace text, p_lane text, p_keys text[], p_now bigint) returns void
language plpgsql volatile
as $$
begin
    if p_lane is not null then
        perform interlock.job_notify(u.pool, u.sort)
        from interlock.job_advance(p_namespace, array[p_lane], true) a
        cross join lateral unnest(a.pools, a.sorts) as u (pool, sort);
    end if;
    if exists (select from unnest(p_keys) as u (key)
               where exists (select from interlock.job_limit_wait w where w.key = u.key and w.namespace = p_namespace)) then
        perform interlock.job_notify(u.pool, u.sort)
        from interlock.job_release_slots(p_namespace, p_keys, p_now) f
        cross join lateral unnest(f.pools, f.sorts) as u (pool, sort);
    end if;
end
$$;
