-- Signal that jobs have ended for which others wait, and notify workers of some queues of the latter: a fetch continues.
-- planner: lookups
create or replace function interlock.job_signal_ends(p_namespace text, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    needed bigint[];
begin
    needed := array(
        select u.id from unnest(p_ids) as u (id)
        where exists (select from interlock.job_after a where a.needs = u.id) order by u.id);
    if needed <> '{}' then
        insert into interlock.job_after_signal (namespace, needs) select p_namespace, u.id from unnest(needed) as u (id);
        perform interlock.job_notify(x.pool, 9223372036854775807)
        from (
            select distinct j.pool
            from (
                select a.id from unnest(needed) as u (id)
                cross join lateral (select a.id from interlock.job_after a where a.needs = u.id limit 100) a limit 1000
            ) a
            join interlock.job j on j.id = a.id
        ) x;
    end if;
end
$$;
