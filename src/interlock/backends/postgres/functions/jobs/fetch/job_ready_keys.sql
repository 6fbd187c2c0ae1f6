-- The keys of all limits of ready jobs.
-- planner: caller
create or replace function interlock.job_ready_keys(ready interlock.ready_jobs) returns text[]
language plpgsql volatile
as $$
begin
    return array(
        select distinct x.key from (
            select u.key from unnest(ready.keys) as u (key) where u.key is not null
            union all
            select q.key
            from unnest(ready.ids, ready.limited, ready.keys) as u (id, limited, key)
            join interlock.job j on j.id = u.id
            cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) q
            where u.limited and u.key is null
        ) x);
end
$$;
