-- Decide about ready jobs in the order given, which is that in which they would start; those of other classes than the
-- usual only among the first request.at_once. All keys of their limits are locked. Only jobs with one of the names that the
-- worker takes are ahead of others in a limit's queue. If jobs wait though there is room, which is for those ahead of them,
-- the fetch is incomplete.
create or replace function interlock.job_check_limits(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_quota integer,
    ready interlock.ready_jobs, p_able boolean[], out decisions smallint[]
)
language plpgsql volatile
as $$
declare
    one_by_one boolean;
    step record;
begin
    select bool_or(u.key is null) or count(distinct u.key) <> count(distinct (u.key, u.max)) into one_by_one
    from unnest(ready.limited, ready.keys, ready.maxima) as u (limited, key, max) where u.limited;
    if one_by_one then
        step := interlock.job_check_each(request, state, p_pool, p_quota, ready, p_able);
    else
        step := interlock.job_check_slots(request, state, p_pool, p_quota, ready, p_able);
    end if;
    state := step.state;
    decisions := step.decisions;
end
$$;
