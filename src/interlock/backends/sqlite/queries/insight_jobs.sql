-- name: unfinished
-- List unfinished jobs of any kind, newest first.
select id, kind from interlock_job where id < :before order by id desc limit :scan

-- name: unfinished_with_states
-- List unfinished jobs with their states, newest first.
select s.id, s.kind, s.state
from (select id from interlock_job where id < :before order by id desc limit :scan) j
cross join interlock_job_with_state s on s.id = j.id
order by s.id desc

-- name: lane_unfinished
-- List the unfinished jobs of a lane from its end: about newest first.
select id, kind from interlock_job where lane = :lane and id < :before order by position desc limit :scan

-- name: ended_in_state
-- List jobs that ended in one state other than done, newest first.
select id, kind from interlock_job_history
where state = :state and state <> 'done' and id < :before
order by id desc
limit :scan

-- name: ended
-- List ended jobs, newest first.
select id, kind, state from interlock_job_history where id < :before order by id desc limit :scan

-- name: lane_ended
-- List the ended jobs of a lane, newest first.
select id, kind, state from interlock_job_history where lane = :lane and id < :before order by id desc limit :scan

-- name: some_ready
-- Select some ready jobs, unreadable ones among them.
select id, kind from interlock_job_ready where kind in (select value from json_each(:kinds))
union all
select id, kind from interlock_job where unreadable and parked is null and kind in (select value from json_each(:kinds))
limit :scan

-- name: some_fetched
-- Select some jobs that workers have fetched and not started.
select c.id, j.kind from interlock_job_fetched c cross join interlock_job j on j.id = c.id where not c.started limit :scan

-- name: some_running
-- Select some jobs that workers have started.
select c.id, j.kind from interlock_job_fetched c cross join interlock_job j on j.id = c.id where c.started limit :scan

-- name: some_scheduled
-- Select some scheduled jobs.
select id, kind from interlock_job_scheduled where kind in (select value from json_each(:kinds)) limit :scan

-- name: some_waiting
-- Select some jobs that wait for a limit.
select id, kind from interlock_job_limit_wait where namespace = :namespace and not woken limit :scan

-- name: some_blocked
-- Select some jobs that wait for others.
select j.id, j.kind
from (select distinct id from interlock_job_after limit :scan) a
cross join interlock_job j on j.id = a.id

-- name: some_held
-- Select the first jobs of some lanes that are held or parked.
select f.id, f.kind
from interlock_job_hold h
cross join interlock_job f on f.id = (
    select x.id from interlock_job x where x.lane = h.lane and x.position > 0 order by x.position limit 1)
where h.lane > :first and h.lane < :beyond
limit :scan

-- name: some_parked
-- Select some parked jobs.
select id, kind from interlock_job where parked is not null limit :scan

-- name: unfinished_views
-- Read unfinished jobs in short: no arguments, and only the last attempt.
select id, name, queue, lane, priority, state, attempt, crashes, enqueued_at, due_at, fetched_at, session, host, pid, program,
       fence, error, uses, '', options, '[' || json_extract(attempts, '$[#-1]') || ']', cause
from interlock_job_with_state
where id in (select value from json_each(:ids)) and namespace = :namespace

-- name: history_views
-- Read ended jobs in short: no arguments or result, and only the last attempt.
select h.id, k.name, k.queue, h.lane, h.priority, h.state, h.attempt, h.crashes, h.enqueued_at, h.due_at, h.fetched_at,
       h.finished_at, h.ran, w.session, w.host, w.pid, w.program, h.fence, h.error, h.superseded_by, h.uses, '',
       h.options, '[' || json_extract(h.attempts, '$[#-1]') || ']', null, h.result_until,
       coalesce(h.cause, '')
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace
left join interlock_job_worker w on w.id = h.worker

-- name: states
-- Read the states of unfinished jobs.
select id, state from interlock_job_with_state where id in (select value from json_each(:ids))

-- name: job_keys
-- Read the positions of unfinished jobs in their lanes and in the queues of limits, and whether their lanes are held or parked.
select j.id, j.lane, j.position, j.sort, j.uses, h.held_by, h.held_reason, h.held_since, h.parked_reason, h.parked_since,
       (select f.id from interlock_job f where f.lane = j.lane and f.position > 0 order by f.position limit 1),
       w.key, w.ticket, j.half
from interlock_job j
left join interlock_job_hold h on h.lane = j.lane
left join interlock_job_limit_wait w on w.id = j.id and not w.woken
where j.id in (select value from json_each(:ids))

-- name: needs
-- Select what some jobs wait for: the jobs that have not ended, or that failed.
select a.id, a.needs, coalesce(s.name, k.name, ''), coalesce(s.state, h.state, ''),
       coalesce(s.fetched_at, h.finished_at, s.due_at), count(*) over (partition by a.id),
       row_number() over (partition by a.id order by a.failed desc, a.needs) as n
from json_each(:ids) e
cross join interlock_job_after a on a.id = e.value
left join interlock_job_with_state s on s.id = a.needs
left join interlock_job_history h on h.id = a.needs
left join interlock_job_kind k on k.id = h.kind
order by a.id, n

-- name: fetched_by_session
-- Select the jobs that a session has fetched.
select c.id
from interlock_job_worker w
cross join interlock_job_fetched c on c.worker = w.id
where w.namespace = :namespace and w.session = :session
order by c.fetched_at, c.id
limit :limit

-- name: workers
-- List live workers with their sessions.
select w.session, w.host, w.pid, w.program, w.queues, w.names, w.runners,
       (select count(*) from interlock_job_fetched c where c.worker = w.id and not c.started),
       (select count(*) from interlock_job_fetched c where c.worker = w.id and c.started), s.begun_at, s.expires_at,
       s.blocked_since, s.blocked_by, w.handler_versions, w.queue_runners
from interlock_job_worker w
join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and s.expires_at > :now_s and (:session is null or w.session = :session) and w.queues <> '[]'
order by s.begun_at, w.id
limit :limit
