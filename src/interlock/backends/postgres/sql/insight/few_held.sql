-- The heads of lanes that are held or parked, unless they stand somewhere else.
with fetched as materialized (
    select o.id from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) where c.namespace = $1 and c.runs is not null
)
select coalesce(array_agg(x.id), '{}') from (
    select h.id
    from interlock.job_lane l
    cross join lateral (
        select j.id, j.name, j.pool, j.apart from interlock.job j
        where j.lane = l.lane and j.position is not null order by j.position limit 1) h
    where (l.held_since is not null or l.parked_since is not null) and l.lane >= $1 || '/' and l.lane < $1 || '0'
      and not h.apart and not exists (select from fetched c where c.id = h.id)
      and h.id < $4 and ($2 = '' or h.name = $2) and ($3 = '' or h.pool = $1 || '/' || $3)
    limit $5) x
