-- Lock the lanes of ready jobs that no other transaction has locked, and read the jobs of each that can be taken
-- together, up to p_max. p_ids, p_lanes: the ready job of each unit and its lane, or null. able: whether the unit can
-- be taken. lane_tids, lows: the row of its lane and the position of the lane's first job. units, ids: the jobs of all
-- units that can be taken, in order. stale: lanes whose first job is another one. wanting: units whose first job
-- coalesces. ticketed: whether any job has a ticket from a limit's queue.
-- planner: caller
create or replace function interlock.job_read_lanes(
    p_namespace text, p_pool text, p_names text[], p_ids bigint[], p_lanes text[], p_max integer,
    out able boolean[], out lane_tids tid[], out lows bigint[], out units integer[], out ids bigint[], out stale text[],
    out wanting integer[], out busy boolean, out ticketed boolean
)
language plpgsql volatile
as $$
begin
    select array_agg(l.tid), array_agg(l.low), bool_or(u.lane is not null and l.tid is null)
    into lane_tids, lows, busy
    from unnest(p_lanes) as u (lane)
    left join lateral (
        select l.ctid as tid, l.low from interlock.job_lane l
        where l.lane = u.lane and not l.fetched limit 1 for update skip locked
    ) l on true;
    with read as materialized (
        select u.unit, u.lane, u.tid, r.low, r.ticketed, r.coalesces[1] as coalesces,
               u.lane is null or coalesce(r.ids[1] = u.offered, false) as able,
               case when u.lane is null then array[u.offered]
                    when r.alone[1] then r.ids[: 1]
                    else r.ids[: coalesce(array_position(r.misfits, true, 2) - 1, cardinality(r.ids))] end as ids
        from unnest(p_lanes, p_ids, lane_tids, lows) with ordinality as u (lane, offered, tid, low, unit)
        cross join lateral (
            select array_agg(x.id) as ids, array_agg(x.alone) as alone, array_agg(x.coalesces) as coalesces,
                   array_agg(x.alone or x.other) as misfits, min(x.position) as low,
                   bool_or(x.ticket is not null) as ticketed
            from (
                select j.id, j.position, j.ticket, j.coalesces,
                       j.coalesces or j.half is not null or j.use_key is not null or j.uses is not null as alone,
                       j.apart or j.pool <> p_pool or j.name <> all (p_names) as other
                from interlock.job j
                where u.tid is not null and j.lane = u.lane
                  and j.position >= least(
                      u.low, (select min(s.position) from interlock.job_signal s where s.namespace = p_namespace))
                order by j.position limit p_max
            ) x
        ) r
    )
    select array_agg(r.able), array_agg(r.low), array_agg(r.lane) filter (where r.tid is not null and not r.able),
           array_agg(r.unit) filter (where r.able and r.coalesces), bool_or(r.ticketed),
           (select array_agg(x.unit) from (select q.unit, unnest(q.ids) from read q where q.able) x),
           (select array_agg(x.id) from (select unnest(q.ids) as id from read q where q.able) x)
    into able, lows, stale, wanting, ticketed, units, ids
    from read r;
end
$$;
