-- name: get
-- Read one job.
with clock as materialized (select interlock.micros(interlock.now_or($3)) as now_us)
select now_us, v.* from clock cross join lateral interlock.job_open_views($1) v where v.id = $2
union all
select now_us, v.* from clock cross join lateral interlock.job_ended_views($1, now_us) v where v.id = $2

-- name: walk
-- Walk unfinished jobs by ID: those that match, the last one that was read, and how many were read.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where x.pool >= $1 || '/' and x.pool < $1 || '0' and ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)),
           '{}'), min(x.id), count(*)
from (select j.id, j.pool, j.name from interlock.job j where j.id < $4 order by j.id desc limit $5) x

-- name: walk_ended
-- Walk ended jobs by ID.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where x.pool >= $1 || '/' and x.pool < $1 || '0' and ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)
             and ($6::smallint is null or x.state = $6)),
           '{}'), min(x.id), count(*)
from (select h.id, h.pool, h.name, h.state from interlock.job_history h where h.id < $4 order by h.id desc limit $5) x

-- name: walk_lane
-- Walk the jobs of a lane from its end, which is roughly the newest first. Jobs without a position come first.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)),
           '{}'), min(x.id), count(*)
from (
    (select j.id, j.pool, j.name from interlock.job j
     where j.lane = $1 || '/' || $6 and j.position is not null and j.id < $4 order by j.position desc limit $5)
    union all
    (select j.id, j.pool, j.name from interlock.job_scheduled l join interlock.job j on j.id = l.id
     where l.lane = $1 || '/' || $6 and l.pool >= $1 || '/' and l.pool < $1 || '0' and j.position is null and j.id < $4
     limit 1000)
    union all
    (select distinct j.id, j.pool, j.name from interlock.job_after a join interlock.job j on j.id = a.id
     where j.lane = $1 || '/' || $6 and j.position is null and j.id < $4
     limit 1000)) x

-- name: walk_ended_lane
-- Walk the ended jobs of a lane.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)
             and ($7::smallint[] is null or x.state = any ($7))),
           '{}'), min(x.id), count(*)
from (
    select h.id, h.pool, h.name, h.state from interlock.job_history h
    where h.lane = $1 || '/' || $6 and h.id < $4 order by h.id desc limit $5) x

-- name: walk_state
-- Walk the jobs that ended in one state other than done.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where x.pool >= $1 || '/' and x.pool < $1 || '0' and ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)),
           '{}'), min(x.id), count(*)
from (
    select h.id, h.pool, h.name from interlock.job_history h
    where h.state = $6::smallint and h.state <> 0 and h.id < $4 order by h.id desc limit $5) x

-- name: walk_states
-- Walk unfinished jobs by ID with their states: those that match, the last one that was read, and how many were
-- read.
with next as materialized (
    select j.id, j.pool, j.name, j.lane, j.position, j.due_at, j.parked is not null as parked
    from interlock.job j where j.id < $4 order by j.id desc limit $5
),
fetched as materialized (
    select o.id, o.id in (select s.id from interlock.job_started_ids($1) s) as started
    from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) where c.namespace = $1
)
select coalesce(array_agg(x.id order by x.id desc) filter (where x.wanted and x.state = any ($6::text[])), '{}'), min(x.id), count(*)
from (
    select n.id,
           n.pool >= $1 || '/' and n.pool < $1 || '0' and ($2 = '' or n.name = $2) and ($3 = '' or n.pool = $1 || '/' || $3)
               as wanted,
           case when n.parked then 'parked'
                when r.started then 'running'
                when r.id is not null then 'fetched'
                when exists (select from interlock.job_after a where a.id = n.id) then 'blocked'
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
    left join fetched r on r.id = n.id
    left join interlock.job_scheduled l on l.pool = n.pool and l.at = n.due_at and l.id = n.id
    left join interlock.job_limit_wait w on w.id = n.id and not w.woken
) x

-- name: states
-- Select the jobs among these that are in one of these states.
select j.id from interlock.job j
where j.id = any ($2::bigint[]) and interlock.job_state(j, $1) = any ($3::text[]) order by j.id desc

-- name: few_held
-- List the first jobs of lanes that are held or parked, unless another state applies to them.
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

-- name: few_parked
-- List parked jobs.
select coalesce(array_agg(x.id), '{}') from (
    select j.id from interlock.job j
    where j.parked is not null and j.pool >= $1 || '/' and j.pool < $1 || '0' and j.id < $4 and ($2 = '' or j.name = $2)
      and ($3 = '' or j.pool = $1 || '/' || $3)
    limit $5) x

-- name: few_ready
-- List ready jobs, unreadable ones among them, and the first jobs of lanes that no fetch has seen yet.
select coalesce(array_agg(x.id), '{}') from (
    (select r.id from interlock.job_ready r
     where r.pool >= $1 || '/' and r.pool < $1 || '0' and r.id < $4 and ($2 = '' or r.name = $2)
       and ($3 = '' or r.pool = $1 || '/' || $3)
     limit $5)
    union
    (select h.id
     from (select distinct g.lane from (select x.lane from interlock.job_signal x where x.namespace = $1 limit $5) g) g
     cross join lateral (
         select j.* from interlock.job j where j.lane = g.lane and j.position is not null order by j.position limit 1) h
     where h.id < $4 and ($2 = '' or h.name = $2) and ($3 = '' or h.pool = $1 || '/' || $3)
       and interlock.job_state(h::interlock.job, $1) = 'ready')
    union
    (select j.id from interlock.job j
     where j.unreadable and j.parked is null and j.pool >= $1 || '/' and j.pool < $1 || '0' and j.id < $4
       and ($2 = '' or j.name = $2) and ($3 = '' or j.pool = $1 || '/' || $3) and interlock.job_state(j, $1) = 'ready'
     limit $5)
) x

-- name: few_fetched
-- List jobs that workers have fetched and not started.
select coalesce(array_agg(x.id), '{}') from (
    select o.id
    from interlock.job_fetched c
    cross join lateral unnest(c.ids) as o (id)
    left join interlock.job j on ($2 <> '' or $3 <> '') and j.id = o.id
    where c.namespace = $1 and o.id < $4 and ($2 = '' or j.name = $2) and ($3 = '' or j.pool = $1 || '/' || $3)
      and o.id not in (select s.id from interlock.job_started_ids($1) s)
    limit $5) x

-- name: few_running
-- List jobs that workers have started.
select coalesce(array_agg(x.id), '{}') from (
    select s.id
    from interlock.job_started_ids($1) s
    left join interlock.job j on ($2 <> '' or $3 <> '') and j.id = s.id
    where s.id < $4 and ($2 = '' or j.name = $2) and ($3 = '' or j.pool = $1 || '/' || $3)
    limit $5) x

-- name: few_scheduled
-- List scheduled jobs.
select coalesce(array_agg(x.id), '{}') from (
    select l.id from interlock.job_scheduled l
    where l.pool >= $1 || '/' and l.pool < $1 || '0' and l.id < $4 and ($2 = '' or l.name = $2)
      and ($3 = '' or l.pool = $1 || '/' || $3)
    limit $5) x

-- name: few_waiting
-- List jobs that wait for a limit.
select coalesce(array_agg(x.id), '{}') from (
    select w.id
    from interlock.job_limit_wait w left join interlock.job j on $2 <> '' and j.id = w.id
    where w.namespace = $1 and not w.woken and w.id < $4 and ($2 = '' or j.name = $2) and ($3 = '' or w.pool = $1 || '/' || $3)
    limit $5) x

-- name: few_blocked
-- List jobs that wait for others.
select coalesce(array_agg(x.id), '{}') from (
    select distinct j.id
    from interlock.job_after a join interlock.job j on j.id = a.id
    where j.pool >= $1 || '/' and j.pool < $1 || '0' and j.id < $4 and j.parked is null and ($2 = '' or j.name = $2)
      and ($3 = '' or j.pool = $1 || '/' || $3)
    limit $5) x

-- name: needs
-- List what some jobs wait for: the jobs that have not ended, or that failed; the first few of each.
select x.id, x.needs, coalesce(j.name, h.name, ''),
       coalesce(case when j.id is not null then interlock.job_state(j, $1) end, interlock.job_ended_state(h.state), ''),
       coalesce(c.fetched_at, h.finished_at, j.due_at), x.count
from (
    select a.id, a.needs, count(*) over (partition by a.id) as count,
           row_number() over (partition by a.id order by a.failed desc, a.needs) as n
    from interlock.job_after a where a.id = any ($2::bigint[])
) x
left join interlock.job j on j.id = x.needs
left join lateral (
    select h.name, h.state, h.finished_at from interlock.job_history h where j.id is null and h.id = x.needs limit 1) h on true
left join lateral (
    select c.fetched_at from interlock.job_fetched c
    where j.id is not null and c.namespace = $1 and x.needs = any (c.ids) limit 1) c on true
where x.n <= $3
order by x.id, x.n

-- name: many_signals
-- Whether many lanes have not been seen by a fetch yet.
select count(*) >= $2 from (select from interlock.job_signal s where s.namespace = $1 limit $2) x

-- name: ended
-- Read ended jobs, without their details.
select interlock.micros(interlock.now_or($3)), h.id, h.name, substr(h.pool, length($1) + 2),
       coalesce(substr(h.lane, length($1) + 2), ''), h.priority, interlock.job_ended_state(h.state), h.attempt, h.crashes,
       h.enqueued_at, h.due_at, h.fetched_at, h.started_at, h.finished_at, coalesce(w.session, h.attempts -> -1 ->> 4),
       coalesce(w.host, h.attempts -> -1 ->> 5), coalesce(w.pid, (h.attempts -> -1 ->> 6)::integer),
       coalesce(w.program, h.attempts -> -1 ->> 7), h.fence, h.error, h.superseded_by, h.use_key, h.use_max_count, h.use_per,
       h.uses, '', h.options, null::text, h.kept_until,
       case when h.attempts is not null then jsonb_build_array(h.attempts -> -1) end, coalesce(h.cause, '')
from interlock.job_history h
left join interlock.job_session w on w.id = h.session_id
where h.id = any ($2) and h.pool >= $1 || '/' and h.pool < $1 || '0'

-- name: situations
-- Read unfinished jobs, without their details, with what decides when each runs. Positions and states are computed
-- for all of them at once.
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
    select o.id, c.fence, c.fetched_at, c.session_id, o.id in (select s.id from interlock.job_started_ids($1) s) as started
    from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) where c.namespace = $1
),
standing as materialized (
    select j.id,
           case when j.parked is not null then 'parked'
                when c.started then 'running'
                when c.id is not null then 'fetched'
                when exists (select from interlock.job_after a where a.id = j.id) then 'blocked'
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
        cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u
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
    select h.half, interlock.job_suspects($1, h.half) as suspicion
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
       coalesce(c.fence, j.fence), coalesce(j.parked, j.error), null::bigint, j.use_key, j.use_max_count, j.use_per, j.uses, '', j.options,
       null::text, null::bigint, case when j.attempts is not null then jsonb_build_array(j.attempts -> -1) end,
       coalesce(j.cause, ''),
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
       greatest(coalesce(v.knows, 0), (exists (
           select from interlock.session x where x.namespace = $1 and x.id = k.session and x.expires_at > now_is))::integer)
           as workers, coalesce(v.workers, 0) as workers_of_queue,
       p.suspicion
from clock
cross join mine m
join interlock.job j on j.id = m.id
join standing s on s.id = j.id
left join fetched c on c.id = j.id
left join interlock.job_session k on k.id = c.session_id
left join heads h on h.lane = j.lane
left join interlock.job_lane l on l.lane = j.lane
left join line w on w.id = j.id
left join lines n on n.key = w.key
left join working v on v.pool = j.pool and v.name = j.name
left join suspects p on p.half = j.half

-- name: row_locks
-- List jobs that have a row which another transaction has kept locked for a second or longer: which table, and who. A
-- row's xmax is the transaction that locked it last; a running transaction holds a lock on its own number.
with asked as materialized (
    select j.id, j.lane, j.pool, j.due_at, interlock.job_sort(j.due_at, j.priority) as sort, j.xmax as locker
    from interlock.job j where j.id = any ($2::bigint[]) and j.pool >= $1 || '/' and j.pool < $1 || '0'
),
locked as materialized (
    select a.id, 1 as rank, 'job_lane' as what, l.xmax as locker from asked a join interlock.job_lane l on l.lane = a.lane
    union all
    select a.id, 4, 'job', a.locker from asked a
    union all
    select a.id, 2, 'job_ready', r.xmax
    from asked a
    cross join (values (0::smallint), (1::smallint), (2::smallint), (3::smallint)) k (class)
    join interlock.job_ready r on r.pool = a.pool and r.class = k.class and r.sort = a.sort and r.id = a.id
    union all
    select a.id, 3, 'job_scheduled', l.xmax
    from asked a join interlock.job_scheduled l on l.pool = a.pool and l.at = a.due_at and l.id = a.id
    union all
    select a.id, 5, 'job_fetched', c.xmax
    from asked a join interlock.job_fetched c on c.namespace = $1 and a.id = any (c.ids)
)
select distinct on (h.id) h.id, h.what, k.pid, coalesce(s.application_name, ''), coalesce(s.usename, ''),
       coalesce(s.state, ''), extract(epoch from clock_timestamp() - s.xact_start)::float8,
       interlock.micros(interlock.now_or($3))
from locked h
join pg_catalog.pg_locks k
  on k.locktype = 'transactionid' and k.transactionid = h.locker and k.granted and k.mode = 'ExclusiveLock'
left join pg_catalog.pg_stat_activity s on s.pid = k.pid
where k.pid <> pg_backend_pid()
  -- Without a start, its transaction has just ended, unless this role may not see the start.
  and (s.xact_start < clock_timestamp() - interval '1 second' or s.query = '<insufficient privilege>')
order by h.id, h.rank

-- name: neighbours
-- List the jobs before and behind one in its lane.
with me as (
    select j.lane, j.position from interlock.job j
    where j.id = $2 and j.pool >= $1 || '/' and j.pool < $1 || '0' and j.position is not null and j.lane is not null
)
select array(select b.id from interlock.job b where b.lane = me.lane and b.position < me.position order by b.position desc limit $3),
       (select b.id from interlock.job b where b.lane = me.lane and b.position is not null order by b.position limit 1),
       array(select b.id from interlock.job b where b.lane = me.lane and b.position > me.position order by b.position limit $3)
from me

-- name: fetched
-- List the jobs that a session has fetched.
select o.id from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id)
where c.session = $2 and c.namespace = $1 order by c.fetched_at, o.id limit $3

-- name: log_statuses
-- Read what jobs have reported, without their lines.
select l.id, l.attempt, l.fence, l.lines, l.kept_lines, l.progress, l.message, l.progress_at
from interlock.job_log l where l.id = any ($2::bigint[]) and l.namespace = $1

-- name: log_chunks
-- Read chunks of a log from the one that has the line after a number.
select c.first, c.attempt, c.fence, c.content
from interlock.job_log l
join interlock.job_log_chunk c on c.id = l.id and c.first + c.lines > $3::bigint + 1
where l.id = $2 and l.namespace = $1
order by c.first limit $4

-- name: queue_pauses
-- List the paused queues.
select substr(q.pool, length($1) + 2), q.paused_by, q.reason, q.paused_since
from interlock.queue_pause q where q.namespace = $1
