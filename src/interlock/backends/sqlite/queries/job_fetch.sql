-- name: worker
-- Read the session that fetches, its worker's ID if it has one, and the number up to which its fetches are unreadable.
select s.host, s.pid, s.program, w.id, coalesce(w.refused_fetches, 0)
from interlock_session s
left join interlock_job_worker w on w.namespace = s.namespace and w.session = s.id
where s.namespace = :namespace and s.id = :session and s.expires_at > :now_s

-- name: add_worker
-- Add a worker for a session.
insert into interlock_job_worker (namespace, session, host, pid, program)
values (:namespace, :session, :host, :pid, :program)
returning id

-- name: kinds
-- Read the kinds of some queues, without paused ones: for each fetch class whether any job is ready, and when the next job is
-- due.
select k.id, k.queue, k.name,
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.class = 0 /* plain */),
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.class = 1 /* slots */),
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.class = 2 /* paced */),
       exists (select 1 from interlock_job_ready r where r.kind = k.id and r.class = 3 /* suspect */),
       (select t.at from interlock_job_scheduled t where t.kind = k.id order by t.at limit 1)
from json_each(:queues) q
cross join interlock_job_kind k on k.namespace = :namespace and k.queue = q.value
where not exists (select 1 from interlock_queue_pause p where p.namespace = :namespace and p.queue = q.value)

-- name: due_jobs
-- Select scheduled jobs of a kind that are due.
select t.at, t.id, t.kind, t.has_position, j.lane
from interlock_job_scheduled t
cross join interlock_job j on j.id = t.id
where t.kind = :kind and t.at <= :now
order by t.at, t.id
limit :limit

-- name: ready_jobs
-- Select ready jobs of a kind in the order in which they run. The reader stops when it has enough.
select r.sort, j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.priority, j.enqueued_at / 1e6, j.due_at / 1e6,
       j.uses, j.coalesces, j.arguments, j.options,
       case when j.uses is not null then (select w.ticket from interlock_job_limit_wait w where w.id = j.id) end, 0, '',
       j.cause, j.expires_at, j.half
from interlock_job_ready r
cross join interlock_job j on j.id = r.id
where r.kind = ? and r.class = ?
order by r.sort, r.id

-- name: ready_heads
-- Select the ready jobs of some lanes with their fetch classes; the other columns are those of ready_jobs.
select r.class, r.sort, j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.priority, j.enqueued_at / 1e6,
       j.due_at / 1e6, j.uses, j.coalesces, j.arguments, j.options,
       case when j.uses is not null then (select w.ticket from interlock_job_limit_wait w where w.id = j.id) end, 0, '',
       j.cause, j.expires_at, j.half
from json_each(:lanes) e
cross join interlock_job_ready r on r.lane = e.value
cross join interlock_job j on j.id = r.id

-- name: jobs_behind
-- Select the jobs behind another in its lane, and whether each is parked, unreadable or scheduled.
select j.sort, j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.priority, j.enqueued_at / 1e6, j.due_at / 1e6,
       j.uses, j.coalesces, j.arguments, j.options, null,
       j.parked is not null or j.unreadable or exists (
           select 1 from interlock_job_scheduled t where t.kind = j.kind and t.at = j.due_at and t.id = j.id),
       (select k.name from interlock_job_kind k where k.id = j.kind),
       j.cause, j.expires_at, j.half
from interlock_job j
where j.lane = ? and j.position > ?
order by j.position

-- name: add_fetched
-- Record that a worker has fetched jobs.
insert into interlock_job_fetched (id, worker, fence, fetched_at, lane, uses, fetch_number, hooked)
select j.id, :worker, :fence, :now, j.lane, j.uses, :fetch_number, j.hooks is not null
from json_each(:ids) e
cross join interlock_job j on j.id = e.value

-- name: half_of_session
-- Read which half of a group of suspects a session has.
select j.half
from interlock_job_worker w
cross join interlock_job_fetched c on c.worker = w.id
cross join interlock_job j on j.id = c.id
where w.namespace = :namespace and w.session = :session and j.half is not null
limit 1

-- name: ready_suspects
-- Check for ready suspects that a session may fetch: of the half it has, or of any if it has none.
select 1
from json_each(:kinds) e
cross join interlock_job_ready r on r.kind = e.value and r.class = 3 /* suspect */
cross join interlock_job j on j.id = r.id
where :half is null or j.half = :half
limit 1

-- name: add_limit_wait
-- Add a job to the queue of a limit.
insert into interlock_job_limit_wait (namespace, key, kind, ticket, id, in_lane) values (?, ?, ?, ?, ?, ?)

-- name: next_wake
-- Read when the next queue of a limit may move.
select at from interlock_job_wake where namespace = :namespace order by at limit 1

-- name: watched_ended
-- Select jobs that a session waits for and that have ended.
select a.id
from interlock_job_watch a
where a.namespace = :namespace and a.session = :session
  and not exists (select 1 from interlock_job j where j.id = a.id)
limit 1000
