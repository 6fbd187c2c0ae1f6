-- name: read_lock
-- Read a lock with its holder's session, and whether anyone waits for it.
select l.owner, l.caller, l.session, l.fence, l.granted_at, l.expires_at, l.free_since,
       coalesce(s.expires_at, 0), s.host, s.pid, s.program,
       exists (select 1 from interlock_waiter w where w.namespace = l.namespace and w.key = l.key)
from interlock_lock l
left join interlock_session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = :namespace and l.key = :key

-- name: grant
-- Give the lock to an owner with a new fence.
insert into interlock_lock (namespace, key, owner, caller, session, fence, granted_at, expires_at)
values (:namespace, :key, :owner, :caller, :session, :fence, :now, :now + :ttl)
on conflict (namespace, key) do update
set owner = :owner, caller = :caller, session = :session, fence = :fence, granted_at = :now,
    expires_at = :now + :ttl, free_since = null

-- name: extend
-- Extend the lease that an owner already holds.
update interlock_lock set expires_at = :now + :ttl
where namespace = :namespace and key = :key and owner = :owner

-- name: renew
-- Extend a lease, unless it or its session has expired.
update interlock_lock set expires_at = :now + :ttl
where namespace = :namespace and key = :key and owner = :owner and expires_at > :now
  and exists (
      select 1 from interlock_session s
      where s.namespace = interlock_lock.namespace and s.id = interlock_lock.session and s.expires_at > :now)

-- name: free
-- End the holder's lease and remember why, so that the former holder can be notified.
update interlock_lock
set ended_owner = owner, ended_why = :why, owner = null, free_since = :at
where namespace = :namespace and key = :key and owner is not null

-- name: delete_lock
-- Delete the lock's row.
delete from interlock_lock where namespace = :namespace and key = :key

-- name: is_live
-- Check that a lease is still held with this fence.
select 1 from interlock_lock l
join interlock_session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > :now
where l.namespace = :namespace and l.key = :key and l.owner = :owner and l.fence = :fence and l.expires_at > :now

-- name: why_ended
-- Read why an owner's lease ended.
select ended_why from interlock_lock where namespace = :namespace and key = :key and ended_owner = :owner

-- name: session_alive
-- Check that a session has not expired.
select 1 from interlock_session where namespace = :namespace and id = :session and expires_at > :now

-- name: next_fence
-- Take the namespace's next fence.
insert into interlock_fence (namespace, last) values (:namespace, 1)
on conflict (namespace) do update set last = last + 1
returning last

-- name: add_message
-- Leave a message for the session whose lease was taken away.
insert into interlock_forced (namespace, session, owner, why, at)
values (:namespace, :session, :owner, :why, :now)
on conflict do nothing

-- name: add_waiter
-- Add a waiter at the end of the lock's queue.
insert into interlock_waiter (ticket, namespace, key, owner, caller, session, asked_at, gives_up_at)
values (:ticket, :namespace, :key, :owner, :caller, :session, :now, :now + :wait)

-- name: delete_waiter
-- Remove a waiter.
delete from interlock_waiter where namespace = :namespace and owner = :owner

-- name: ticket
-- Read a waiter's number in the queue.
select ticket from interlock_waiter where namespace = :namespace and owner = :owner and key = :key

-- name: largest_ticket
-- Read the largest ticket in a range, to continue after it.
select max(ticket) from interlock_waiter where ticket between :first and :last

-- name: last_overdue_ticket
-- Read the last ticket of the waiters that asked before the oldest request that may still arrive late.
select coalesce(max(ticket), 0) from interlock_waiter
where namespace = :namespace and key = :key and asked_at <= :now - :longest

-- name: count_ahead
-- Count the waiters before a ticket.
select count(*) from interlock_waiter where namespace = :namespace and key = :key and ticket < :ticket

-- name: first_waiter
-- Read the first waiter's owner.
select owner from interlock_waiter where namespace = :namespace and key = :key order by ticket limit 1

-- name: count_waiters
-- Count the waiters of a lock, up to a bound.
select count(*) from (select 1 from interlock_waiter where namespace = :namespace and key = :key limit :limit)

-- name: drop_dead_waiters
-- Delete waiters that gave up or whose sessions have expired.
delete from interlock_waiter
where namespace = :namespace and key = :key
  and (gives_up_at <= :now
       or not exists (
           select 1 from interlock_session s
           where s.namespace = interlock_waiter.namespace and s.id = interlock_waiter.session and s.expires_at > :now))

-- name: unqueued_owners
-- Of a session's waiting owners, select those that are not in any queue.
select value from json_each(:owners)
where value not in (select owner from interlock_waiter where namespace = :namespace and session = :session)

-- name: turns
-- In how many seconds each waiter of a session should ask again. A waiter's turn starts :turn seconds after the one
-- before it when that one does not take the lock.
with live as (
    select w.owner, w.session, w.key, row_number() over (partition by w.key order by w.ticket) - 1 as ahead
    from interlock_waiter w
    join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now
    where w.namespace = :namespace
      and w.key in (select key from interlock_waiter where namespace = :namespace and session = :session)
      and (w.gives_up_at is null or w.gives_up_at > :now)
),
mine as (
    select live.owner, live.ahead,
           case when l.owner is null then l.free_since else min(l.expires_at, coalesce(s.expires_at, 0)) end as free_at,
           l.owner is not null and min(l.expires_at, coalesce(s.expires_at, 0)) > :now as held
    from live
    join interlock_lock l on l.namespace = :namespace and l.key = live.key
    left join interlock_session s on s.namespace = l.namespace and s.id = l.session
    where live.session = :session
)
select owner, case when held then free_at - :now else min(free_at, :now) + ahead * :turn - :now end as due_in
from mine
order by due_in
limit 100

-- name: waits_of_caller
-- Select the locks that a waiter waits for, with their holders, to find deadlocks.
select w.key, l.caller
from interlock_waiter w
join interlock_lock l on l.namespace = w.namespace and l.key = w.key and l.owner is not null and l.expires_at > :now
join interlock_session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > :now
join interlock_session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > :now
where w.namespace = :namespace and w.caller = :caller and (w.gives_up_at is null or w.gives_up_at > :now)
order by w.ticket

-- name: session_requests
-- Select the locks that a session holds or waits for.
select key, owner from interlock_lock where namespace = :namespace and session = :session and owner is not null
union all
select key, owner from interlock_waiter where namespace = :namespace and session = :session

-- name: keys_awaited_by
-- Select the keys that a session waits for.
select distinct w.key
from interlock_waiter w
join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now
where w.namespace = :namespace and w.session = :session and (w.gives_up_at is null or w.gives_up_at > :now)
order by w.key
limit :limit

-- name: list_locks
-- List locks that are held or waited for, by key.
select l.key, l.owner, l.caller, l.session, l.fence, l.granted_at, l.expires_at, l.free_since,
       s.expires_at, s.host, s.pid, s.program
from interlock_lock l
left join interlock_session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = :namespace and l.key > :after
  and (l.owner is not null and min(l.expires_at, coalesce(s.expires_at, 0)) > :now
       or exists (
           select 1 from interlock_waiter w
           join interlock_session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > :now
           where w.namespace = l.namespace and w.key = l.key and (w.gives_up_at is null or w.gives_up_at > :now)))
order by l.key
limit :limit

-- name: list_one
-- Read one lock if it is held or waited for.
select l.key, l.owner, l.caller, l.session, l.fence, l.granted_at, l.expires_at, l.free_since,
       s.expires_at, s.host, s.pid, s.program
from interlock_lock l
left join interlock_session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = :namespace and l.key = :key
  and (l.owner is not null and min(l.expires_at, coalesce(s.expires_at, 0)) > :now
       or exists (
           select 1 from interlock_waiter w
           join interlock_session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > :now
           where w.namespace = l.namespace and w.key = l.key and (w.gives_up_at is null or w.gives_up_at > :now)))

-- name: list_waiters
-- List the waiters of a lock in order, and whether each is alive.
select w.owner, w.caller, w.session, coalesce(s.host, ''), coalesce(s.pid, 0), coalesce(s.program, ''),
       w.asked_at, w.gives_up_at,
       coalesce(s.expires_at, 0) > :now and (w.gives_up_at is null or w.gives_up_at > :now)
from interlock_waiter w
left join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and w.key = :key
order by w.ticket
limit :limit

-- name: count_all
-- Count locks and waiters, each up to a bound.
select
    (select count(*) from (
        select 1 from interlock_lock l
        join interlock_session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > :now
        where l.namespace = :namespace and l.owner is not null and l.expires_at > :now
        limit :limit)),
    (select count(*) from (
        select 1 from interlock_waiter w
        join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now
        where w.namespace = :namespace and (w.gives_up_at is null or w.gives_up_at > :now)
        limit :limit))
