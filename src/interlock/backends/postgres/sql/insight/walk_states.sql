-- The next unfinished jobs by number with how they stand: those that are wanted, the last that was looked at, how many.
with next as materialized (
    select j.id, j.pool, j.name, j.lane, j.position, j.due_at, j.parked is not null as parked
    from interlock.job j where j.id < $4 order by j.id desc limit $5
),
running as materialized (
    select o.id from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) where c.namespace = $1
)
select coalesce(array_agg(x.id order by x.id desc) filter (where x.wanted and x.state = any ($6::text[])), '{}'), min(x.id), count(*)
from (
    select n.id,
           n.pool >= $1 || '/' and n.pool < $1 || '0' and ($2 = '' or n.name = $2) and ($3 = '' or n.pool = $1 || '/' || $3)
               as wanted,
           case when n.parked then 'parked'
                when r.id is not null then 'running'
                when l.id is not null then 'scheduled'
                when w.id is not null then 'waiting'
                when n.lane is null then 'ready'
                when exists (
                    select from interlock.job b
                    where b.lane = n.lane and b.position < coalesce(n.position, 9223372036854775807)) then 'behind'
                when exists (
                    select from interlock.job_lane h
                    where h.lane = n.lane and (h.held_since is not null or h.parked_since is not null)) then 'held'
                else 'ready' end as state
    from next n
    left join running r on r.id = n.id
    left join interlock.job_scheduled l on l.pool = n.pool and l.at = n.due_at and l.id = n.id
    left join interlock.job_limit_wait w on w.id = n.id and not w.woken
) x
