-- Unfinished jobs in short, with what decides about each. Their places and states are worked out for all of them at once.
with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($4) as now_is) given
),
mine as materialized (
    select j.id, j.pool, j.lane, j.position, j.name, j.due_at, j.priority, j.half
    from interlock.job j where j.id = any ($2) and j.pool >= $1 || '/' and j.pool < $1 || '0'
),
heads as materialized (
    select l.lane, h.id
    from (select distinct m.lane from mine m where m.lane is not null) l
    cross join lateral (
        select j.id from interlock.job j where j.lane = l.lane and j.position is not null order by j.position limit 1) h
),
fetched as materialized (
    select o.id, c.fence, c.fetched_at, c.crew
    from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) where c.namespace = $1
),
standing as materialized (
    select j.id,
           case when j.parked is not null then 'parked'
                when c.id is not null then 'running'
                when exists (
                    select from interlock.job_scheduled l where l.pool = j.pool and l.at = j.due_at and l.id = j.id) then 'scheduled'
                when exists (select from interlock.job_limit_wait w where w.id = j.id and not w.woken) then 'waiting'
                when j.lane is null then 'ready'
                when h.id is not null and (j.position is null or h.id <> j.id) then 'behind'
                when l.held_since is not null or l.parked_since is not null then 'held'
                else 'ready' end as state
    from (select m.id from mine m union select h.id from heads h) x
    join interlock.job j on j.id = x.id
    left join fetched c on c.id = j.id
    left join heads h on h.lane = j.lane
    left join interlock.job_lane l on l.lane = j.lane
),
line as materialized (
    select w.id, w.key, w.ticket from mine m join interlock.job_limit_wait w on w.id = m.id and not w.woken
),
lines as materialized (
    select k.key, l.wake_at, array(
        select o.id
        from interlock.job_fetched c
        cross join lateral unnest(c.ids) as o (id)
        join interlock.job j on j.id = o.id
        cross join lateral interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u
        where c.namespace = $1 and c.limited and u.key = k.key limit 20) as holders, kinds.pools, kinds.names
    from (select distinct line.key from line) k
    cross join lateral (
        with recursive known (pool, name) as (
            (select x.pool, x.name from interlock.job_limit_wait x
             where x.key = k.key and x.namespace = $1 order by x.pool, x.name limit 1)
            union all
            select n.pool, n.name from known p
            cross join lateral (
                select x.pool, x.name from interlock.job_limit_wait x
                where x.key = k.key and x.namespace = $1 and (x.pool, x.name) > (p.pool, p.name)
                order by x.pool, x.name limit 1) n
        )
        select array_agg(p.pool) as pools, array_agg(p.name) as names from known p
    ) kinds
    left join interlock.job_limit l on l.namespace = $1 and l.key = k.key
),
working as materialized (
    select p.pool, p.name, count(*) filter (where p.name = any (w.names)) as knows, count(*) as workers
    from (select distinct m.pool, m.name from mine m) p
    cross join clock
    join interlock.job_worker w on w.namespace = $1 and substr(p.pool, length($1) + 2) = any (w.queues)
    join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > now_is
    group by p.pool, p.name
),
suspects as materialized (
    select h.half, interlock.job_suspicion($1, h.half) as suspicion
    from (select distinct m.half from mine m where m.half is not null) h
),
fresh as materialized (
    select h.id, h.pool, interlock.job_sort(h.due_at, h.priority) as sort
    from (
        select distinct x.lane from (
            select g.lane from interlock.job_signal g where g.namespace = $1 order by g.position limit 100) x
        where exists (select from standing s join working w on w.knows > 0 where s.state = 'ready')
    ) g
    cross join lateral (
        select j.id, j.pool, j.due_at, j.priority, j.apart from interlock.job j
        where j.lane = g.lane and j.position is not null order by j.position limit 1) h
    where not h.apart and not exists (select from interlock.job_ready r where r.lane = g.lane)
      and not exists (select from fetched c where c.id = h.id)
      and not exists (
          select from interlock.job_lane l
          where l.lane = g.lane and (l.held_since is not null or l.parked_since is not null))
)
select now_us, j.id, j.name, substr(j.pool, length($1) + 2), coalesce(substr(j.lane, length($1) + 2), ''), j.priority, s.state,
       j.attempt + (c.fence is not null)::integer, j.crashes, j.enqueued_at, j.due_at, c.fetched_at, null::bigint,
       null::bigint, coalesce(k.session, j.attempts -> -1 ->> 4), coalesce(k.host, j.attempts -> -1 ->> 5),
       coalesce(k.pid, (j.attempts -> -1 ->> 6)::integer), coalesce(k.program, j.attempts -> -1 ->> 7),
       coalesce(c.fence, j.fence), coalesce(j.parked, j.error), null::bigint, j.use_key, j.use_most, j.use_per, j.uses, '', j.options,
       null::text, null::bigint, case when j.attempts is not null then jsonb_build_array(j.attempts -> -1) end,
       case s.state
           when 'ready' then case when coalesce(v.knows, 0) = 0 then 0 else
               (select count(*) from (
                   select from (values (0::smallint), (1::smallint), (2::smallint)) k (class)
                   join interlock.job_ready r on r.pool = j.pool and r.class = k.class
                       and (r.sort, r.id) < (interlock.job_sort(j.due_at, j.priority), j.id) and r.id <> j.id
                   limit $3::integer) x)
               + (select count(*) from fresh f
                  where f.pool = j.pool and (f.sort, f.id) < (interlock.job_sort(j.due_at, j.priority), j.id)) end
           when 'behind' then
               (select count(*) from (
                   select from interlock.job b
                   where b.lane = j.lane and b.position < coalesce(j.position, 9223372036854775807)
                   limit $3::integer) x)
           when 'waiting' then
               (select count(*) from (
                   select from unnest(n.pools, n.names) as p (pool, name)
                   join interlock.job_limit_wait x
                       on x.key = w.key and x.namespace = $1 and x.pool = p.pool and x.name = p.name and x.ticket < w.ticket
                   limit $3::integer) x)
           else 0 end as ahead,
       case when h.id <> j.id then h.id end as lane_head,
       case when h.id <> j.id then (select a.state from standing a where a.id = h.id) end as lane_head_state,
       coalesce(l.held_by, '') as held_by, coalesce(l.held_reason, '') as held_reason, l.held_since, l.parked_since,
       coalesce(l.parked_reason, '') as parked_reason,
       coalesce(w.key, '') as waits_for, coalesce(n.holders, '{}') as holders, case when n.wake_at > now_us then n.wake_at end as room_at,
       coalesce(v.knows, 0) as workers, coalesce(v.workers, 0) as workers_of_queue,
       p.suspicion
from clock
cross join mine m
join interlock.job j on j.id = m.id
join standing s on s.id = j.id
left join fetched c on c.id = j.id
left join interlock.job_session k on k.id = c.crew
left join heads h on h.lane = j.lane
left join interlock.job_lane l on l.lane = j.lane
left join line w on w.id = j.id
left join lines n on n.key = w.key
left join working v on v.pool = j.pool and v.name = j.name
left join suspects p on p.half = j.half
