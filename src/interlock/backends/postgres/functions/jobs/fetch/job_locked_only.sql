-- Exclude ready jobs that have a limit whose key is not locked.
-- planner: caller
create or replace function interlock.job_locked_only(
    ready interlock.ready_jobs, p_able boolean[], p_locked text[]
) returns boolean[]
language plpgsql volatile
as $$
begin
    for i in 1 .. cardinality(ready.ids) loop
        if ready.limited[i] and exists (
            select from interlock.job j
            cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) q
            where j.id = ready.ids[i] and q.key <> all (p_locked))
        then
            p_able[i] := false;
        end if;
    end loop;
    return p_able;
end
$$;
