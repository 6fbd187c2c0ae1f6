-- Lock up to p_max ready jobs of the usual class: those behind (from_sort, from_id). If these are fewer, the ones before
-- scan_from are added and go first, and scan_from becomes the lowest. simple: none of them has a lane or a limit.
-- planner: caller
create or replace function interlock.job_fetch_pick_usual(
    p_pool text, p_names text[], p_max integer, inout scan_from bigint, p_from_sort bigint, p_from_id bigint,
    out ready interlock.ready_jobs, out simple boolean
)
language plpgsql volatile
as $$
declare
    lowest constant bigint := -9223372036854775808;
    picked record;
begin
    select array_agg(p.ctid) as tids, array_agg(p.id) as ids, array_agg(p.sort) as sorts, array_agg(p.limited) as limited,
           array_agg(p.lane) as lanes, array_agg(p.use_key) as keys, array_agg(p.use_max_count) as maxima,
           coalesce(bool_and(not p.limited and p.lane is null), true) as simple, count(*) as found
    into picked
    from (
        select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_max_count from interlock.job_ready r
        where r.pool = p_pool and r.class = interlock.class_usual() and (r.sort, r.id) > (p_from_sort, p_from_id)
          and r.name = any (p_names)
        order by r.sort, r.id limit p_max for update skip locked
    ) p;
    if picked.found < p_max and scan_from > lowest then
        select array_agg(p.ctid) || picked.tids as tids, array_agg(p.id) || picked.ids as ids,
               array_agg(p.sort) || picked.sorts as sorts, array_agg(p.limited) || picked.limited as limited,
               array_agg(p.lane) || picked.lanes as lanes, array_agg(p.use_key) || picked.keys as keys,
               array_agg(p.use_max_count) || picked.maxima as maxima,
               picked.simple and coalesce(bool_and(not p.limited and p.lane is null), true) as simple
        into picked
        from (
            select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_max_count from interlock.job_ready r
            where r.pool = p_pool and r.class = interlock.class_usual() and r.sort < scan_from and r.name = any (p_names)
            order by r.sort, r.id limit p_max - picked.found for update skip locked
        ) p;
        scan_from := lowest;
    end if;
    simple := picked.simple;
    ready := (picked.tids, picked.ids, picked.sorts, null, picked.limited, picked.lanes, picked.keys, picked.maxima);
end
$$;
