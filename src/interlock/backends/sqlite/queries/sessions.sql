-- name: add_session
-- Start a session.
insert into interlock_session (namespace, id, host, pid, program, begun_at, expires_at)
values (:namespace, :id, :host, :pid, :program, :now, :now + :seconds)
on conflict (namespace, id) do nothing

-- name: renew_session
-- Extend a session that has not expired.
update interlock_session set expires_at = :now + :seconds
where namespace = :namespace and id = :id and expires_at > :now

-- name: delete_session
-- Delete a session.
delete from interlock_session where namespace = :namespace and id = :id

-- name: expired_sessions
-- Select sessions that expired more than an hour ago.
select id from interlock_session where namespace = :namespace and expires_at < :now - 3600 limit 100

-- name: copy_session
-- Copy a session's expiry and its event loop's state from the memory store.
update interlock_session set expires_at = :expires_at, blocked_since = :blocked_since, blocked_by = :blocked_by
where namespace = :namespace and id = :id

-- name: set_blocked
-- Record that a session's event loop was blocked, for how long and by what.
update interlock_session set blocked_since = :now - :seconds, blocked_by = :by
where namespace = :namespace and id = :id

-- name: mark_leaving
-- Record that a session's worker is leaving, so that its jobs count as interrupted and not as crashed.
insert into interlock_job_worker (namespace, session, host, pid, program, leaving)
select namespace, id, host, pid, program, :leaving
from interlock_session
where namespace = :namespace and id = :id
  and (:leaving or exists (select 1 from interlock_job_worker where namespace = :namespace and session = :id))
on conflict (namespace, session) do update set leaving = excluded.leaving

-- name: free_locks
-- Free all locks of a session that has ended.
update interlock_lock
set ended_owner = owner, ended_why = 'its session ended', owner = null, free_since = :now
where namespace = :namespace and session = :id and owner is not null

-- name: delete_waiters
-- Delete a session's waiters.
delete from interlock_waiter where namespace = :namespace and session = :id

-- name: delete_messages
-- Delete the messages of a session.
delete from interlock_forced where namespace = :namespace and session = :id

-- name: delete_old_messages
-- Delete messages that no session has read for an hour.
delete from interlock_forced where namespace = :namespace and at < :now - 3600

-- name: delete_idle_locks
-- Delete locks that have been free for a minute and have no waiters.
delete from interlock_lock
where namespace = :namespace and key in (
    select l.key from interlock_lock l
    where l.namespace = :namespace and l.owner is null and l.free_since < :now - 60
      and not exists (
          select 1 from interlock_waiter w
          where w.namespace = l.namespace and w.key = l.key)
    limit 10000)

-- name: delete_watches
-- Forget which jobs a session waits for.
delete from interlock_job_watch where namespace = :namespace and session = :id

-- name: end_worker
-- Record when a session's worker ended.
update interlock_job_worker set ended_at = cast(:now * 1000000 as integer)
where namespace = :namespace and session = :id and ended_at is null
