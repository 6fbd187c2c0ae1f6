-- Give jobs their keys, and return those of them whose keys others hold. p_known: jobs to leave out. p_strict: see
-- job_take_keys.
-- planner: lookups
create or replace function interlock.job_without_keys(
    p_namespace text, p_jobs interlock.new_jobs, p_known bigint[], p_now bigint, p_strict boolean
) returns bigint[]
language plpgsql volatile
as $$
declare
    keys record;
begin
    if p_known <> '{}' then
        p_jobs.keys := array(
            select case when s.id <> all (p_known) then s.key end
            from unnest(p_jobs.ids, p_jobs.keys) with ordinality as s (id, key, n) order by s.n);
    end if;
    keys := interlock.job_take_keys(p_namespace, p_jobs, p_now, p_strict);
    return array(
        select s.id from unnest(p_jobs.ids, keys.holders) as s (id, holder)
        where s.holder is not null and s.id <> all (keys.fresh));
end
$$;
