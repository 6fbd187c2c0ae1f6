-- Make lanes ready that have something to run. The caller has locked their rows, and its own changes are visible. Empty
-- lanes are removed. A job whose signal has not been handled yet may have a position before low, so the first such
-- signal bounds the search. p_offered: whether some lanes may already be ready. pools, sorts: where jobs became ready,
-- with the lowest sort key.
-- planner: lookups
create or replace function interlock.job_advance(
    p_namespace text, p_lanes text[], p_offered boolean, out pools text[], out sorts bigint[]
)
language plpgsql volatile
as $$
begin
    with head as materialized (
        select l.lane, l.held_since is not null or l.parked_since is not null as held, h.*
        from unnest(p_lanes) as u (lane)
        cross join lateral (select l.* from interlock.job_lane l where l.lane = u.lane and not l.fetched limit 1) l
        left join lateral (
            select j.id, j.pool, j.name, j.due_at, j.priority, j.half, j.paced, j.apart, j.use_key, j.use_max_count, j.use_per,
                   j.use_key is not null or j.uses is not null as limited
            from interlock.job j
            where j.lane = l.lane
              and j.position >= least(
                  l.low, (select min(s.position) from interlock.job_signal s where s.namespace = p_namespace))
            order by j.position limit 1
        ) h on true
    ),
    emptied as (
        delete from interlock.job_lane l
        where l.lane = any (array(select head.lane from head where head.id is null and not head.held))
    ),
    offer as materialized (
        select h.pool, interlock.job_sort(h.due_at, h.priority) as sort, h.id, interlock.job_class(h.half, h.paced) as class, h.half,
               h.limited, h.name, h.lane, case when h.use_per = 0 then h.use_key end as use_key,
               case when h.use_per = 0 then h.use_max_count end as use_max_count, x.tid, x.offered
        from head h
        left join lateral (
            select x.ctid as tid, x.id as offered from interlock.job_ready x where p_offered and x.lane = h.lane limit 1
        ) x on true
        where h.id is not null and not h.held and not h.apart
    ),
    made as (
        insert into interlock.job_ready as r (pool, sort, id, half, use_max_count, class, limited, name, lane, use_key)
        select o.pool, o.sort, o.id, o.half, o.use_max_count, o.class, o.limited, o.name, o.lane, o.use_key
        from offer o where o.tid is null
        returning r.pool, r.sort
    ),
    -- Another first job than the one that is ready. A fetch that has locked the row finds out by itself, and is not
    -- waited for.
    other as materialized (
        select x.ctid as tid, o.pool, o.sort, o.id, o.half, o.use_max_count, o.class, o.limited, o.name, o.use_key from offer o
        join interlock.job_ready x on x.ctid = o.tid
        where o.offered <> o.id and x.lane = o.lane
        for update of x skip locked
    ),
    moved as (
        update interlock.job_ready r
        set pool = o.pool, sort = o.sort, id = o.id, half = o.half, use_max_count = o.use_max_count, class = o.class, limited = o.limited,
            name = o.name, use_key = o.use_key
        from other o where r.ctid = o.tid
        returning r.pool, r.sort
    )
    select array_agg(m.pool), array_agg(m.sort) into pools, sorts
    from (
        select x.pool, min(x.sort) as sort
        from (select made.pool, made.sort from made union all select moved.pool, moved.sort from moved) x
        group by x.pool
    ) m;
end
$$;
