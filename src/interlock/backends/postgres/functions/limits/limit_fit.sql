-- The first time from p_at on at which a start does not exceed p_most starts of a key within p_per, counting past
-- starts, those planned by reservations with a smaller ticket than p_ticket, and p_jobs jobs that start before it, each as
-- early as it fits. A job may start at any time until that of its start, so it counts from its fetch on.
create or replace function interlock.limit_fit(
    p_namespace text, p_key text, p_most integer, p_per bigint, p_at bigint, p_ticket bigint, p_jobs integer,
    p_now timestamptz, p_fresh bigint
) returns bigint
language plpgsql volatile
as $$
declare
    times bigint[];
    fit bigint;
    last bigint;
begin
    if exists (select from interlock.job_limit_start s where s.namespace = p_namespace and s.key = p_key and s.at > p_at) then
        select s.at into last from (
            select s.at from interlock.job_limit_start s where s.namespace = p_namespace and s.key = p_key
            union all
            select s.at from interlock.limit_start s where s.namespace = p_namespace and s.key = p_key
        ) s order by s.at desc offset p_most - 1 limit 1;
        p_at := greatest(p_at, last + p_per);
    end if;
    select array_agg(t.at order by t.at) into times
    from (
        select s.at from interlock.limit_start s
        where s.namespace = p_namespace and s.key = p_key and s.at > p_at - p_per
        union all
        select s.at from interlock.job_limit_start s
        where s.namespace = p_namespace and s.key = p_key and s.at > p_at - p_per
        union all
        select u.at from interlock.limit_uses(p_namespace, p_key, p_now, p_fresh) u
        where u.live and not u.started and u.ticket < p_ticket and u.at > p_at - p_per
    ) t;
    for job in 1 .. p_jobs loop
        fit := interlock.limit_fit_times(times, p_most, p_per, p_at);
        times := array(select u.at from unnest(times || fit) as u (at) order by u.at);
    end loop;
    return interlock.limit_fit_times(times, p_most, p_per, p_at);
end
$$;
