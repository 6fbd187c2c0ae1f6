-- Remove the starts that rates and cooldowns count for jobs that were returned before they started.
-- planner: caller
create or replace function interlock.job_uncount_starts(p_namespace text, p_ids bigint[], p_outcomes smallint[])
returns void
language sql volatile
as $$
    delete from interlock.job_limit_start t
    using unnest(p_ids, p_outcomes) as s (id, outcome)
    join interlock.job j on j.id = s.id
    cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u
    cross join lateral (
        select x.at from interlock.job_limit_start x
        where x.namespace = p_namespace and x.key = u.key and x.id = s.id order by x.fetched_at desc limit 1
    ) last
    where s.outcome in (interlock.outcome_returned(), interlock.outcome_unstarted(), interlock.outcome_unreadable())
      and t.namespace = p_namespace and t.key = u.key and t.at = last.at and t.id = s.id
$$;
