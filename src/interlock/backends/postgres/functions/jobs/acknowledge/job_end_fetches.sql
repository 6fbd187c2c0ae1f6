-- Remove acknowledged jobs from the fetches that have these fences.
-- planner: array_joins
create or replace function interlock.job_end_fetches(p_ids bigint[], p_fences bigint[]) returns interlock.ended_fetches
language plpgsql volatile
as $$
declare
    fetches interlock.ended_fetches;
begin
    with held as materialized (
        select c.fence, c.ids, c.runs, c.session_id, c.fetched_at, c.limited from interlock.job_fetched c
        where c.fence = any (p_fences) order by c.fence for update
    ),
    given as materialized (
        select o.fence, o.id, o.run, s.n
        from (select h.fence, unnest(h.ids) as id, unnest(h.runs) as run from held h) o
        left join unnest(p_ids, p_fences) with ordinality as s (id, fence, n) on s.id = o.id and s.fence = o.fence
    ),
    remaining as materialized (
        select g.fence, array_agg(g.id) filter (where g.n is null) as ids,
               array_agg(g.run) filter (where g.n is null) as runs, count(g.n) as matched
        from given g group by g.fence
    ),
    emptied as (
        delete from interlock.job_fetched c
        where c.fence = any (array(select r.fence from remaining r where r.ids is null))
    ),
    changed as (
        update interlock.job_fetched c set ids = r.ids, runs = case when c.runs is not null then r.runs end from remaining r
        where c.fence = any (array(select x.fence from remaining x where x.ids is not null and x.matched > 0))
          and r.fence = c.fence
    )
    select (select case when count(g.n) < cardinality(p_ids)
                        then coalesce(array_agg(g.n) filter (where g.n is not null), '{}') end from given g) as matched,
           bool_or(h.runs is not null) as laned, bool_or(h.limited) as limited, array_agg(h.fence) as fences,
           array_agg(h.session_id) as session_ids, array_agg(h.fetched_at) as times,
           (select array_agg(x.id)
            from (select min(g.id) as id from given g where g.run is not null
                  group by g.fence, g.run having count(*) = count(g.n)) x) as last_ones
    into fetches from held h;
    return fetches;
end
$$;
