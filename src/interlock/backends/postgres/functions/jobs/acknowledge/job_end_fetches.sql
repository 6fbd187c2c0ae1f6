-- Remove jobs from the fetches that have these fences. matched: which of them, by their positions in the arrays; null
-- if all. laned, limited: whether jobs of those fetches may have lanes or limits. fences, session_ids, times: those of the
-- fetches. last_ones: one job of each run that ends with this.
-- planner: array_joins
create or replace function interlock.job_end_fetches(
    p_ids bigint[], p_fences bigint[], out matched integer[], out laned boolean, out limited boolean, out fences bigint[],
    out session_ids bigint[], out times bigint[], out last_ones bigint[]
)
language plpgsql volatile
as $$
declare
    places integer[];
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
    select array_agg(h.fence), array_agg(h.session_id), array_agg(h.fetched_at), bool_or(h.runs is not null), bool_or(h.limited),
           (select array_agg(g.n) from given g where g.n is not null),
           (select array_agg(x.id)
            from (select min(g.id) as id from given g where g.run is not null
                  group by g.fence, g.run having count(*) = count(g.n)) x)
    into fences, session_ids, times, laned, limited, places, last_ones
    from held h;
    if coalesce(cardinality(places), 0) < cardinality(p_ids) then
        matched := coalesce(places, '{}');
    end if;
end
$$;
