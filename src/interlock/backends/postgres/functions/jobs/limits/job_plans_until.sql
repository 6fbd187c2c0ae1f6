-- When to look again because planned starts of reservations are in the way of a job that would start now; null if none is.
-- p_times: the planned times that it has to respect. The figures are parallel arrays.
create or replace function interlock.job_plans_until(
    p_namespace text, p_key text, p_mosts integer[], p_pers bigint[], p_times bigint[], p_now bigint
) returns bigint
language plpgsql stable
as $$
declare
    longest bigint := (select max(u.per) from unnest(p_pers) as u (per));
    times bigint[];
    fit bigint := p_now;
    before bigint;
begin
    if p_times is null or longest is null then
        return null;
    end if;
    times := array(
        select t.at from (
            select s.at from interlock.limit_start s
            where s.namespace = p_namespace and s.key = p_key and s.at > p_now - longest
            union all
            select s.at from interlock.job_limit_start s
            where s.namespace = p_namespace and s.key = p_key and s.at > p_now - longest
            union all
            select greatest(u.at, p_now) from unnest(p_times) as u (at)
        ) t order by t.at);
    loop
        before := fit;
        for i in 1 .. cardinality(p_mosts) loop
            fit := interlock.limit_fit_times(times, p_mosts[i], p_pers[i], fit);
        end loop;
        exit when fit = before;
    end loop;
    return case when fit > p_now
                then least(fit, (select min(u.at) from unnest(p_times) as u (at)) + interlock.limit_turn()) end;
end
$$;
