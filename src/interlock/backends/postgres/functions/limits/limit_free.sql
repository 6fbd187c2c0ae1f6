-- How many slots of a key are free, with all reservations as they are stored, or with p_fresh only the live ones; a thousand
-- if it has no slots. Jobs count too.
create or replace function interlock.limit_free(p_namespace text, p_key text, p_now timestamptz, p_fresh bigint)
returns bigint
language sql stable
as $$
    select coalesce(
               case when j.override_count is null
                    then least(r.slots, (select min(f.max_count) from unnest(j.mosts, j.pers) as f (max_count, per) where f.per = 0))
                    when j.override_per = 0 then j.override_count end,
               1000) - r.started - j.taken
    from interlock.limit_jobs(p_namespace, p_key, 0, p_now) j
    cross join (
        select min(u.max_count) filter (where u.per = 0) as slots, count(*) filter (where u.started) as started
        from interlock.limit_uses(p_namespace, p_key, p_now, coalesce(p_fresh, 0)) u where p_fresh is null or u.live
    ) r
$$;
