-- name: get
-- Read one job.
with clock as materialized (select interlock.micros(interlock.now_or($3)) as now_us)
select now_us, v.* from clock cross join lateral interlock.job_open_views($1) v where v.id = $2
union all
select now_us, v.* from clock cross join lateral interlock.job_ended_views($1, now_us) v where v.id = $2

-- name: list
-- List the newest jobs. IDs are drawn in blocks, so that their order is only roughly that of time: more rows are
-- read than are wanted.
with clock as materialized (select interlock.micros(interlock.now_or($2)) as now_us),
asked as materialized (
    select $3::text[] as states, $3 = '{}' or $3 && array['ready', 'behind'] as many,
           $3 = '{}' or $3 && array['ready', 'behind', 'held', 'scheduled', 'waiting', 'running', 'parked'] as unfinished,
           $3 = '{}' or $3 && array['done', 'failed', 'discarded', 'cancelled', 'superseded', 'quarantined'] as ended
),
few as materialized (
    select unnest(c.ids) as id from interlock.job_fetched c cross join asked
    where c.namespace = $1 and not many and 'running' = any (states)
    union all
    select l.id from interlock.job_scheduled l cross join asked
    where not many and 'scheduled' = any (states) and l.pool >= $1 || '/' and l.pool < $1 || '0'
    union all
    select w.id from interlock.job_limit_wait w cross join asked
    where not many and 'waiting' = any (states) and w.namespace = $1
    union all
    select j.id from interlock.job j cross join asked
    where not many and 'parked' = any (states) and j.parked is not null
    union all
    select h.id from interlock.job_lane l cross join asked
    cross join lateral (
        select j.id from interlock.job j where j.lane = l.lane and j.position is not null order by j.position limit 1) h
    where not many and 'held' = any (states) and (l.held_since is not null or l.parked_since is not null)
      and l.lane >= $1 || '/' and l.lane < $1 || '0'
)
select now_us, x.*
from clock
cross join (
    (select v.id, v.name, v.queue, v.lane, v.priority, v.state, v.attempt, v.crashes, v.enqueued_at, v.due_at, v.fetched_at,
            v.started_at, v.finished_at, v.session, v.host, v.pid, v.program, v.fence, v.error, v.superseded_by, v.use_key,
            v.use_max_count, v.use_per, v.uses, '' as arguments, v.options, null as result, v.kept_until, null::jsonb as attempts
     from asked cross join clock
     cross join lateral interlock.job_open_views($1) v
     where unfinished and (states = '{}' or v.state = any (states)) and (many or v.id = any (array(select id from few)))
       and ($4 = '' or v.name = $4) and ($5 = '' or v.queue = $5) and ($6 = '' or v.lane = $6)
     order by v.id desc limit $7::integer * 2 + 100)
    union all
    (select v.id, v.name, v.queue, v.lane, v.priority, v.state, v.attempt, v.crashes, v.enqueued_at, v.due_at, v.fetched_at,
            v.started_at, v.finished_at, v.session, v.host, v.pid, v.program, v.fence, v.error, v.superseded_by, v.use_key,
            v.use_max_count, v.use_per, v.uses, '', v.options, null, v.kept_until, null::jsonb
     from asked cross join clock
     cross join lateral interlock.job_ended_views($1, now_us) v
     where ended and (states = '{}' or v.state = any (states))
       and ($4 = '' or v.name = $4) and ($5 = '' or v.queue = $5) and ($6 = '' or v.lane = $6)
     order by v.id desc limit $7::integer * 2 + 100)
) x
order by x.enqueued_at desc, x.id desc
limit $7

-- name: situation
-- Read what decides when a job runs.
with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($3) as now_is) given
),
me as materialized (
    select j as row, j.id, j.pool, j.lane, j.position, j.name, interlock.job_sort(j.due_at, j.priority) as sort,
           interlock.job_state(j, $1) as state, now_us, now_is
    from clock cross join interlock.job j
    where j.id = $2 and j.pool >= $1 || '/' and j.pool < $1 || '0'
),
head as materialized (
    select h.id, interlock.job_state(h::interlock.job, $1) as state
    from me
    cross join lateral (
        select j.* from interlock.job j where j.lane = me.lane and j.position is not null order by j.position limit 1) h
),
line as materialized (
    select w.key, w.ticket, w.per from me join interlock.job_limit_wait w on w.id = me.id and not w.woken
),
found as materialized (
    select now_us, v.* from clock cross join lateral interlock.job_open_views($1) v where v.id = $2
    union all
    select now_us, v.* from clock cross join lateral interlock.job_ended_views($1, now_us) v where v.id = $2
),
working as materialized (
    select me.name = any (w.names) as knows
    from me
    join interlock.job_worker w on w.namespace = $1 and substr(me.pool, length($1) + 2) = any (w.queues)
    join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > me.now_is
)
select found.*,
       case me.state
           when 'ready' then
               (select count(*) from (
                   select from interlock.job_ready r
                   where r.pool = me.pool and (r.sort, r.id) < (me.sort, me.id) and r.id <> me.id limit 10000) x)
               + (select count(*) from interlock.job_new_heads($1) f
                  where f.pool = me.pool and (f.sort, f.id) < (me.sort, me.id))
           when 'behind' then
               (select count(*) from (
                   select from interlock.job j
                   where j.lane = me.lane and j.position < coalesce(me.position, 9223372036854775807) limit 10000) x)
           when 'waiting' then
               (select count(*) from (
                   select from interlock.job_limit_wait w, line
                   where w.key = line.key and w.namespace = $1 and w.ticket < line.ticket limit 10000) x)
           else 0 end as ahead,
       (select head.id from head where head.id <> me.id) as lane_head,
       (select head.state from head where head.id <> me.id) as lane_head_state,
       coalesce(l.held_by, '') as held_by, coalesce(l.held_reason, '') as held_reason, l.held_since, l.parked_since,
       coalesce(l.parked_reason, '') as parked_reason,
       coalesce((select line.key from line), '') as waits_for,
       array(
           select o.id from line
           join interlock.job_fetched c on c.namespace = $1 and c.limited
           cross join lateral unnest(c.ids) as o (id)
           join interlock.job j on j.id = o.id
           cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u
           where u.key = line.key limit 20) as holders,
       (select k.wake_at from line join interlock.job_limit k on k.namespace = $1 and k.key = line.key
        where k.wake_at > found.now_us) as room_at,
       (select count(*) from working where working.knows) as workers,
       (select count(*) from working) as workers_of_queue,
       (select interlock.job_suspects($1, (me.row).half) where (me.row).half is not null) as suspicion
from found
left join me on me.id = found.id
left join interlock.job_lane l on l.lane = me.lane

-- name: lanes
-- List lanes that have jobs or are held, by name, or one of them. Each step finds the next lane, however many jobs
-- one has.
with recursive clock as materialized (select interlock.micros(interlock.now_or($4)) as now_us),
busy (lane, n) as (
    (select j.lane, 1 from interlock.job j
     where $2::text is null and j.lane >= $1 || '/' and j.lane < $1 || '0' and j.position is not null
     order by j.lane limit 1)
    union all
    select (select j.lane from interlock.job j
            where j.lane > b.lane and j.lane < $1 || '0' and j.position is not null order by j.lane limit 1), b.n + 1
    from busy b where b.lane is not null and b.n < $3
),
known as materialized (
    select x.lane from (
        select $1 || '/' || $2::text collate "C" as lane where $2 is not null
        union
        select b.lane from busy b where b.lane is not null
        union
        (select l.lane from interlock.job_lane l
         where $2::text is null and (l.held_since is not null or l.parked_since is not null)
           and l.lane >= $1 || '/' and l.lane < $1 || '0'
         order by l.lane limit $3)
    ) x
    order by x.lane limit $3
)
select now_us, substr(known.lane, length($1) + 2), case when h.id is null then 'held' else interlock.job_state(h.job, $1) end as state, h.id,
       coalesce(h.name, ''),
       (select count(*) from (
           select from interlock.job j where j.lane = known.lane and j.position is not null limit 10000) x) as depth,
       coalesce(l.held_since, l.parked_since, h.due_at) as since, c.session, c.host, c.pid, c.program,
       coalesce(l.held_by, '') as held_by, coalesce(l.held_reason, '') as held_reason, l.held_since, l.parked_since,
       coalesce(l.parked_reason, '') as parked_reason
from clock
cross join known
left join interlock.job_lane l on l.lane = known.lane
left join lateral (
    select j as job, j.id, j.name, j.due_at from interlock.job j
    where j.lane = known.lane and j.position is not null order by j.position limit 1
) h on true
left join lateral (
    select w.session, w.host, w.pid, w.program
    from interlock.job_fetched x join interlock.job_session w on w.id = x.session_id
    where x.namespace = $1 and h.id = any (x.ids) limit 1
) c on true
where h.id is not null or l.held_since is not null or l.parked_since is not null
order by known.lane
limit $3

-- name: queues
-- List queues with their counts and workers.
with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($2) as now_is) given
),
running as materialized (
    select unnest(c.ids) as id from interlock.job_fetched c where c.namespace = $1
),
standing as (
    select j.pool, j.due_at,
           case when j.parked is not null then 'parked'
                when r.id is not null then 'running'
                when l.id is not null then 'scheduled'
                when w.id is not null then 'waiting'
                when j.lane is null then 'ready'
                when j.position is distinct from min(j.position) over (partition by j.lane) then 'behind'
                when k.held_since is not null or k.parked_since is not null then 'held'
                else 'ready' end as state
    from clock
    cross join interlock.job j
    left join running r on r.id = j.id
    left join interlock.job_scheduled l on l.pool = j.pool and l.at = j.due_at and l.id = j.id
    left join interlock.job_limit_wait w on w.id = j.id and not w.woken
    left join interlock.job_lane k on k.lane = j.lane
    where j.pool >= $1 || '/' and j.pool < $1 || '0'
),
filled as (
    select s.pool, count(*) filter (where s.state = 'ready') as ready, count(*) filter (where s.state = 'behind') as behind,
           count(*) filter (where s.state = 'scheduled') as scheduled, count(*) filter (where s.state = 'waiting') as waiting,
           count(*) filter (where s.state = 'running') as running, count(*) filter (where s.state = 'held') as held,
           count(*) filter (where s.state = 'parked') as parked,
           min(s.due_at) filter (where s.state = 'ready') as oldest_ready_at,
           min(s.due_at) filter (where s.state = 'scheduled') as next_due_at
    from standing s group by s.pool
),
worked as (
    select $1 || '/' || q.queue as pool, count(*) as workers, sum(w.runners) as runners
    from clock
    join interlock.job_worker w on w.namespace = $1
    join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > now_is
    cross join lateral unnest(w.queues) as q (queue)
    group by q.queue
)
select substr(coalesce(f.pool, w.pool), length($1) + 2), coalesce(f.ready, 0), coalesce(f.behind, 0), coalesce(f.scheduled, 0),
       coalesce(f.waiting, 0), coalesce(f.running, 0), coalesce(f.held, 0), coalesce(f.parked, 0), f.oldest_ready_at,
       f.next_due_at, coalesce(w.workers, 0), coalesce(w.runners, 0)
from filled f
full join worked w on w.pool = f.pool collate "C"
order by 1
