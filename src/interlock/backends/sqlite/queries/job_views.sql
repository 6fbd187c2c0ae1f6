-- name: unfinished_views
-- Read unfinished jobs in full.
select id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, session, host, pid, program,
       fence, error, uses, arguments, options, attempts
from interlock_job_with_state
where id in (select value from json_each(:ids)) and namespace = :namespace

-- name: history_views
-- Read ended jobs in full, with results that are still kept.
select h.id, k.name, k.queue, h.lane, h.priority, h.state, h.attempt, h.crashes, h.enqueued_at, h.due_at, h.fetched_at,
       h.finished_at, h.ran, w.session, w.host, w.pid, w.program, h.fence, h.error, h.superseded_by, h.uses, h.arguments,
       h.options, h.attempts, r.result, h.result_until
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace
left join interlock_job_worker w on w.id = h.worker
left join interlock_job_result r on r.id = h.id and r.kept_until > :now

-- name: job_keys
-- Read a job's lane, position, order and limits.
select lane, position, sort, uses, half from interlock_job where id = :id

-- name: first_of_lane
-- Read the first job of a lane.
select id from interlock_job where lane = :lane and position > 0 order by position limit 1

-- name: lane_jobs_ahead
-- Count the jobs before a position in a lane, up to a bound.
select count(*) from (
    select 1 from interlock_job where lane = :lane and position > 0 and position < :position limit :limit)

-- name: ready_jobs_ahead
-- Count the ready jobs of a queue that come before another, up to a bound.
select count(*) from (
    select 1
    from interlock_job_kind k
    cross join (values (0), (1), (2), (3)) classes
    cross join interlock_job_ready r on r.kind = k.id and r.class = classes.column1
    where k.namespace = :namespace and k.queue = :queue and (r.sort, r.id) < (:sort, :id)
    limit :limit)

-- name: lane_hold
-- Read who holds a lane and whether it is parked.
select held_by, held_reason, held_since, parked_reason, parked_since from interlock_job_hold where lane = :lane

-- name: limit_wait
-- Read the key that a job waits for and its ticket.
select key, ticket from interlock_job_limit_wait where id = :id

-- name: limit_waiters_ahead
-- Count the jobs before a ticket in a limit's queue, up to a bound.
select count(*) from (
    select 1 from interlock_job_limit_wait
    where namespace = :namespace and key = :key and ticket < :ticket
    limit :limit)

-- name: limit_holders
-- Select the jobs that use a key.
select id from interlock_job_use where namespace = :namespace and key = :key order by id limit :limit

-- name: suspects
-- Select the suspects of one half, and how many there are.
select j.id, count(*) over () from interlock_job j where j.half = :half order by j.id limit :limit

-- name: running_suspects
-- Select the suspects that workers have, those of one group first.
select w.session, w.host, w.pid, w.program, j.half, json_group_array(j.id), count(*)
from interlock_job j
cross join interlock_job_fetched c on c.id = j.id
cross join interlock_job_worker w on w.id = c.worker and w.namespace = :namespace
where j.half is not null
group by w.id, j.half
order by j.half = :half desc, j.half / 2 = :half / 2 desc, w.session
limit :limit

-- name: live_workers
-- Select the queues, handlers and runners of live workers.
select w.queues, w.names, w.runners
from interlock_job_worker w
join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and s.expires_at > :now_s

-- name: list_any
-- List unfinished jobs, newest first.
select id from interlock_job where +kind in (select value from json_each(:kinds)) order by id desc limit :limit

-- name: list_ready
-- List ready jobs and unreadable ones that are not parked, newest first.
select id from interlock_job_ready where kind in (select value from json_each(:kinds))
union all
select id from interlock_job where unreadable and parked is null and kind in (select value from json_each(:kinds))
order by id desc
limit :limit

-- name: list_running
-- List fetched jobs, newest first.
select c.id
from interlock_job_fetched c
cross join interlock_job j on j.id = c.id
where j.kind in (select value from json_each(:kinds))
order by c.id desc
limit :limit

-- name: list_scheduled
-- List scheduled jobs, newest first.
select id from interlock_job_scheduled where kind in (select value from json_each(:kinds)) order by id desc limit :limit

-- name: list_waiting
-- List jobs that wait for a limit, newest first.
select id from interlock_job_limit_wait
where namespace = :namespace and not woken and kind in (select value from json_each(:kinds))
order by id desc
limit :limit

-- name: list_behind
-- List jobs behind another in their lane, newest first.
select id from interlock_job_with_state
where lane is not null and +kind in (select value from json_each(:kinds)) and state = 'behind'
order by id desc
limit :limit

-- name: list_held
-- List the first jobs of held lanes, unless another state applies to them.
select s.id
from interlock_job_hold h
cross join interlock_job_with_state s on s.id = (
    select f.id from interlock_job f where f.lane = h.lane and f.position > 0 order by f.position limit 1)
where s.state = 'held' and s.kind in (select value from json_each(:kinds))
order by s.id desc
limit :limit

-- name: list_parked
-- List parked jobs, newest first.
select id from interlock_job where parked is not null and kind in (select value from json_each(:kinds)) order by id desc limit :limit

-- name: list_lane
-- List the unfinished jobs of a lane, newest first.
select id from interlock_job_with_state
where lane = :lane and kind in (select value from json_each(:kinds))
  and (:states = '[]' or state in (select value from json_each(:states)))
order by id desc
limit :limit

-- name: list_done
-- List jobs that are done, newest first.
select id from interlock_job_history where +kind in (select value from json_each(:kinds)) and state = 'done' order by id desc limit :limit

-- name: list_not_done
-- List jobs that ended in one state other than done, newest first.
select id from interlock_job_history
where state = :state and state <> 'done' and +kind in (select value from json_each(:kinds))
order by id desc
limit :limit

-- name: list_ended
-- List ended jobs, newest first.
select id from interlock_job_history where +kind in (select value from json_each(:kinds)) order by id desc limit :limit

-- name: list_ended_lane
-- List the ended jobs of a lane, newest first.
select id from interlock_job_history
where lane = :lane and +kind in (select value from json_each(:kinds))
  and (:states = '[]' or state in (select value from json_each(:states)))
order by id desc
limit :limit

-- name: count_ready
-- Count ready jobs by kind, and find when the oldest became ready.
select kind, count(*), coalesce(sum(lane is not null), 0), min(sort + priority * 600000000)
from interlock_job_ready
group by kind

-- name: count_running
-- Count fetched jobs by kind.
select j.kind, count(*), sum(c.lane is not null)
from interlock_job_fetched c
cross join interlock_job j on j.id = c.id
group by j.kind

-- name: count_scheduled
-- Count scheduled jobs by kind, and find when the next is due.
select kind, count(*), sum(has_position), min(at) from interlock_job_scheduled group by kind

-- name: count_waiting
-- Count jobs that wait for a limit, by kind.
select kind, count(*), sum(in_lane) from interlock_job_limit_wait where namespace = :namespace and not woken group by kind

-- name: count_parked
-- Count parked jobs by kind.
select kind, count(*), sum(lane is not null and position is not null) from interlock_job where parked is not null group by kind

-- name: count_held
-- Count the first jobs of held lanes by kind.
select s.kind, count(*)
from interlock_job_hold h
cross join interlock_job_with_state s on s.id = (
    select f.id from interlock_job f where f.lane = h.lane and f.position > 0 order by f.position limit 1)
where s.state = 'held'
group by s.kind

-- name: count_in_lanes
-- Count jobs with a position in a lane, by kind.
select kind, count(*) from interlock_job where lane is not null and position > 0 group by kind

-- name: lane_depth
-- Count the jobs of a lane, up to a bound.
select count(*) from (select 1 from interlock_job where lane = :lane and position > 0 limit :limit)

-- name: lanes
-- List lanes that have jobs or are held, by name. Each step finds the next lane, however many jobs it has.
with recursive busy (lane) as (
    select (select min(j.lane) from interlock_job j where j.lane > :first and j.lane < :beyond)
    union all
    select (select min(j.lane) from interlock_job j where j.lane > busy.lane and j.lane < :beyond)
    from busy
    where busy.lane is not null
)
select lane from interlock_job_hold where lane > :first and lane < :beyond
union
select lane from (
    select lane from busy
    where lane is not null
      and exists (select 1 from interlock_job j where j.lane = busy.lane and j.position > 0)
    limit :limit)
order by 1
limit :limit
