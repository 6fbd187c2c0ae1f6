-- name: take_numbers
-- Reserve a range of numbers: job IDs, tickets or positions.
update interlock_job_number set last = last + :count where what = :what returning last

-- name: kind
-- Read the ID of a queue and handler name.
select id from interlock_job_kind where namespace = :namespace and queue = :queue and name = :name

-- name: add_kind
-- Add a queue and handler name.
insert into interlock_job_kind (namespace, queue, name) values (:namespace, :queue, :name) returning id

-- name: name_of_kind
-- Read the handler name of a kind.
select name from interlock_job_kind where id = :kind

-- name: queue_and_name_of_kind
-- Read the queue and handler name of a kind.
select queue, name from interlock_job_kind where id = :kind

-- name: namespace_kinds
-- List all kinds of the namespace.
select id, queue, name from interlock_job_kind where namespace = :namespace order by id

-- name: queues_of_kinds
-- Select the queues of some kinds.
select distinct queue from interlock_job_kind where id in (select value from json_each(:kinds))

-- name: make_ready
-- Make jobs ready to be fetched.
insert or ignore into interlock_job_ready (kind, class, sort, id, priority, lane)
select j.kind, j.class, j.sort, j.id, j.priority, j.lane
from json_each(:ids) e
cross join interlock_job j on j.id = e.value

-- name: remove_ready
-- Remove jobs from the ready table.
delete from interlock_job_ready
where (kind, class, sort, id) in (
    select j.kind, j.class, j.sort, j.id from json_each(:ids) e cross join interlock_job j on j.id = e.value)

-- name: schedule
-- Schedule jobs for their due times.
insert into interlock_job_scheduled (kind, at, id, has_position)
select j.kind, j.due_at, j.id, j.position is not null
from json_each(:ids) e
cross join interlock_job j on j.id = e.value

-- name: unschedule
-- Remove jobs from the schedule.
delete from interlock_job_scheduled
where (kind, at, id) in (
    select j.kind, j.due_at, j.id from json_each(:ids) e cross join interlock_job j on j.id = e.value)

-- name: set_position
-- Set a job's position in its lane.
update interlock_job set position = ? where id = ?

-- name: advance_lanes
-- Make the first jobs of lanes ready, unless a job of the lane is fetched, the lane is held or parked, or the first job
-- waits for something else.
insert or ignore into interlock_job_ready (kind, class, sort, id, priority, lane)
select j.kind, j.class, j.sort, j.id, j.priority, j.lane
from (select distinct value as lane from json_each(:lanes)) l
cross join interlock_job j on j.id = (
    select h.id from interlock_job h where h.lane = l.lane and h.position > 0 order by h.position limit 1)
where j.parked is null and not j.unreadable
  and not exists (select 1 from interlock_job_fetched c where c.lane = l.lane)
  and not exists (select 1 from interlock_job_hold h where h.lane = l.lane)
  and not exists (select 1 from interlock_job_scheduled t where t.kind = j.kind and t.at = j.due_at and t.id = j.id)
  and not exists (select 1 from interlock_job_limit_wait w where w.id = j.id)
returning kind

-- name: leave_limit_queues
-- Remove jobs from the queues of limits.
delete from interlock_job_limit_wait where id in (select value from json_each(:ids)) returning key

-- name: add_message
-- Leave a message for the session whose job is to end.
insert into interlock_forced (namespace, session, owner, why, at) values (:namespace, :session, :owner, :why, :now_s)
on conflict (namespace, session, owner) do update set why = excluded.why, at = excluded.at
