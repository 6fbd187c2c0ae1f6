-- When the next scheduled job of some pools is due, and when the next limit of a namespace has room again and the next job
-- of it expires.
-- planner: caller
create or replace function interlock.job_next_times(
    p_namespace text, p_pools text[], out due_at bigint, out wake_at bigint, out expires_at bigint
)
language plpgsql volatile
as $$
begin
    due_at := (
        select min(l.at) from unnest(p_pools) as x (pool)
        cross join lateral (select l.at from interlock.job_scheduled l where l.pool = x.pool order by l.at limit 1) l);
    wake_at := (
        select min(k.wake_at) from interlock.job_limit k where k.namespace = p_namespace and k.wake_at is not null);
    expires_at := (select e.at from interlock.job_expiry e where e.namespace = p_namespace order by e.at limit 1);
end
$$;
