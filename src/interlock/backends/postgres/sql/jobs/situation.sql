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
               + (select count(*) from interlock.job_fresh_heads($1) f
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
           cross join lateral interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u
           where u.key = line.key limit 20) as holders,
       (select k.wake_at from line join interlock.job_limit k on k.namespace = $1 and k.key = line.key
        where k.wake_at > found.now_us) as room_at,
       (select count(*) from working where working.knows) as workers,
       (select count(*) from working) as workers_of_queue,
       (select interlock.job_suspicion($1, (me.row).half) where (me.row).half is not null) as suspicion
from found
left join me on me.id = found.id
left join interlock.job_lane l on l.lane = me.lane
