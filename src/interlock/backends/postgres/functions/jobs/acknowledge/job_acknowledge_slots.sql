-- Record the slots that fetched jobs free, and return the keys of their limits.
-- planner: caller
create or replace function interlock.job_acknowledge_slots(p_namespace text, p_ids bigint[]) returns text[]
language sql volatile
as $$
    with freed as (
        insert into interlock.job_slot_freed as f (namespace, key, max_count, per, count)
        select p_namespace, u.key, u.max_count, u.per, sum(x.count)
        from (
            select j.use_key, j.use_max_count, j.use_per, j.uses, count(*) as count
            from interlock.job j where j.id = any (p_ids) group by j.use_key, j.use_max_count, j.use_per, j.uses
        ) x
        cross join lateral interlock.job_uses(x.use_key, x.use_max_count, x.use_per, x.uses) u
        group by u.key, u.max_count, u.per
        returning f.key
    )
    select array_agg(distinct f.key) from freed f
$$;
