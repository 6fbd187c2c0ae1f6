-- name: session
-- Read the asking session and whether it is alive.
select expires_at > :now, host, pid, program from interlock_session where namespace = :namespace and id = :session

-- name: reservation
-- Read a reservation by its owner, and whether it went stale because its owner no longer asks.
select ticket, turn, mark, caller, session, asked_at, at, started, wait_kind, waits_for,
       not started and :now_us > max(last_asked, at) + :stale
from interlock_limit_reservation
where namespace = :namespace and owner = :owner

-- name: add_reservation
-- Add a reservation.
insert into interlock_limit_reservation
    (turn, mark, namespace, owner, caller, session, asked_at, last_asked, at, started, wait_kind, waits_for)
values (:turn, (select last from interlock_job_number where what = 'position'), :namespace, :owner, :caller, :session, :now_us, :now_us, :at, :started, :wait_kind, :waits_for)
returning ticket

-- name: update_reservation
-- Update a reservation after another request: when it may start, whether it started, what it waits for.
update interlock_limit_reservation
set last_asked = :now_us, at = :at, started = :started, wait_kind = :wait_kind, waits_for = :waits_for
where ticket = :ticket

-- name: add_use
-- Add one key of a reservation.
insert into interlock_limit_use (namespace, key, ticket, max_count, per) values (:namespace, :key, :ticket, :max_count, :per)

-- name: uses_of
-- Read the keys of a reservation.
select key, max_count, per from interlock_limit_use where ticket = :ticket order by key

-- name: delete_reservation
-- Delete a reservation.
delete from interlock_limit_reservation where ticket = :ticket

-- name: delete_uses
-- Delete the keys of a reservation.
delete from interlock_limit_use where ticket = :ticket

-- name: largest_turn
-- Read the largest turn in a range, to continue after it.
select max(turn) from interlock_limit_reservation where turn between :first and :last

-- name: last_overdue_turn
-- Read the last turn of the waiters that asked before the oldest request that may still arrive late.
select coalesce(max(r.turn), 0)
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
where u.namespace = :namespace and u.key in (select value from json_each(:keys))
  and not r.started and r.asked_at <= :now_us - :longest

-- name: key_status
-- Count what uses a key, seen from the reservation :ticket with its :turn, which is not counted itself. A session
-- that is gone counts as expired at 0.
with used as (
    select r.ticket, r.started, u.max_count, u.per, coalesce(s.expires_at, 0) as expires_at,
           coalesce(s.expires_at, 0) > :now and (r.started or :now_us <= max(r.last_asked, r.at) + :stale) as live,
           r.started or (r.wait_kind = 1 /* slot */ and r.waits_for = u.key and r.turn < :turn) as before_us
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    left join interlock_session s on s.namespace = u.namespace and s.id = r.session
    where u.namespace = :namespace and u.key = :key and u.ticket <> :ticket
)
select coalesce(sum(live), 0),
       coalesce(sum(expires_at <= :now), 0),
       coalesce(sum(live and started), 0),
       coalesce(sum(live and before_us and not started), 0),
       min(case when live and before_us then expires_at end),
       min(case when live then max_count end), max(case when live then max_count end),
       min(case when live then per end), max(case when live then per end),
       (select free_since from interlock_limit_key k where k.namespace = :namespace and k.key = :key)
from used

-- name: room
-- Read a key's slots, how many are used and whether anyone waits. Dead holders count until they are dropped.
select min(case when u.per = 0 then u.max_count end), coalesce(sum(r.started), 0),
       coalesce(max(r.wait_kind = 1 /* slot */ and r.waits_for = u.key), 0)
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
where u.namespace = :namespace and u.key = :key

-- name: quotas
-- Select the different capacities and periods that live reservations declare for a key.
select distinct u.max_count, u.per
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
where u.namespace = :namespace and u.key = :key and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)

-- name: override
-- Read the figure that a person set for a key, or else for all keys of its limit.
select max_count, per from interlock_limit_override
where namespace = :namespace and name in (:key, :name)
order by name = :key desc
limit 1

-- name: read_override
-- Read the figure that a person set under a name.
select name, max_count, per, set_by, reason, set_at from interlock_limit_override
where namespace = :namespace and name = :name

-- name: list_overrides
-- List the figures that people have set.
select name, max_count, per, set_by, reason, set_at from interlock_limit_override
where namespace = :namespace
order by name
limit :limit

-- name: set_override
-- Set the figure of a limit or a key.
insert into interlock_limit_override (namespace, name, max_count, per, set_by, reason, set_at)
values (:namespace, :name, :max_count, :per, :set_by, :reason, :now_us)
on conflict (namespace, name) do update
set max_count = excluded.max_count, per = excluded.per, set_by = excluded.set_by, reason = excluded.reason,
    set_at = excluded.set_at

-- name: delete_override
-- Remove the figure that a person set under a name.
delete from interlock_limit_override where namespace = :namespace and name = :name

-- name: keys_of_name
-- Select the keys of a limit that reservations or waiting jobs use. Keys follow their name and a colon; a semicolon is next.
select key from interlock_limit_use
where namespace = :namespace and (key = :name or key > :name || ':' and key < :name || ';')
union
select key from interlock_job_limit_wait
where namespace = :namespace and (key = :name or key > :name || ':' and key < :name || ';')

-- name: replan
-- Let reservations that wait for their time under some keys be planned again.
update interlock_limit_reservation set at = :now_us
where namespace = :namespace and not started and wait_kind = 2 /* time */
  and waits_for in (select value from json_each(:keys))

-- name: extend_starts
-- Let the known starts of a limit's reservations count for a longer period.
update interlock_limit_start set counts_until = at + :per
where namespace = :namespace and (key = :name or key > :name || ':' and key < :name || ';') and counts_until < at + :per

-- name: extend_job_starts
-- Let the known starts of a limit's jobs count for a longer period.
update interlock_job_limit_start set counts_until = at + :per
where namespace = :namespace and (key = :name or key > :name || ':' and key < :name || ';') and counts_until < at + :per

-- name: key_jobs
-- Select the capacities and periods that fetched jobs declare for a key, and how many jobs declare each.
select max_count, per, count(*) from interlock_job_use where namespace = :namespace and key = :key group by max_count, per

-- name: jobs_ahead
-- Count the jobs in a key's queue up to a number, of kinds that a live worker takes; a thousand at most.
select count(*)
from (
    select 1
    from interlock_job_kind k
    cross join interlock_job_limit_wait w on w.namespace = :namespace and w.key = :key and w.kind = k.id and w.ticket <= :mark
    where k.namespace = :namespace
      and exists (
          select 1 from interlock_job_worker x
          join interlock_session s on s.namespace = x.namespace and s.id = x.session and s.expires_at > :now
          where x.namespace = :namespace and x.ended_at is null
            and exists (select 1 from json_each(x.queues) q where q.value = k.queue)
            and exists (select 1 from json_each(x.names) n where n.value = k.name))
      and not exists (select 1 from interlock_queue_pause p where p.namespace = :namespace and p.queue = k.queue)
    limit 1000)

-- name: place
-- Read the ticket, the turn and the mark of a waiting reservation.
select ticket, turn, mark from interlock_limit_reservation where namespace = :namespace and owner = :owner

-- name: start_times
-- Select when starts on a key happened and when reservations will start, in order. Jobs start at the given time at the latest.
select at from interlock_limit_start where namespace = :namespace and key = :key and at > :after
union all
select at from interlock_job_limit_start where namespace = :namespace and key = :key and at > :after
union all
select r.at
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
where u.namespace = :namespace and u.key = :key and u.ticket < :ticket
  and not r.started and r.at > :after and :now_us <= max(r.last_asked, r.at) + :stale
order by at

-- name: nth_start
-- Read the latest time of the start so many before the last one, those of jobs included; nothing if no job has started.
select at
from (
    select at from interlock_limit_start where namespace = :namespace and key = :key
    union all
    select at from interlock_job_limit_start where namespace = :namespace and key = :key
)
where exists (select 1 from interlock_job_limit_start where namespace = :namespace and key = :key)
order by at desc
limit 1 offset :before

-- name: add_start
-- Record a start that counts against a rate or cooldown.
insert into interlock_limit_start
    (namespace, key, at, ticket, counts_until, owner, caller, session, host, pid, program, max_count, per, asked_at)
values (:namespace, :key, :now_us, :ticket, :counts_until, :owner, :caller, :session, :host, :pid, :program, :max_count, :per,
        :asked_at)

-- name: starts_after
-- Count the starts on a key after a time, those of jobs included.
select (select count(*) from interlock_limit_start where namespace = :namespace and key = :key and at > :after)
       + (select count(*) from interlock_job_limit_start where namespace = :namespace and key = :key and at > :after)

-- name: delete_old_starts
-- Delete a key's starts that no longer count.
delete from interlock_limit_start
where namespace = :namespace and key = :key and at <= :before and counts_until <= :now_us

-- name: set_free_since
-- Record since when a key has had room.
insert into interlock_limit_key (namespace, key, free_since) values (:namespace, :key, :at)
on conflict (namespace, key) do update set free_since = :at

-- name: dead_reservations
-- Select reservations on a key whose sessions have expired, in the order in which they died.
select r.ticket, cast(round(coalesce(s.expires_at, 0) * 1000000) as integer) as died_at, r.started
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
left join interlock_session s on s.namespace = u.namespace and s.id = r.session
where u.namespace = :namespace and u.key = :key and coalesce(s.expires_at, 0) <= :now
order by died_at

-- name: session_reservations
-- Select all reservations of a session, with the time it ended.
select r.ticket, cast(round(min(coalesce(s.expires_at, 0), :now) * 1000000) as integer), r.started
from interlock_limit_reservation r
left join interlock_session s on s.namespace = r.namespace and s.id = r.session
where r.namespace = :namespace and r.session = :session

-- name: unknown_owners
-- Of a session's waiting owners, select those that have no live reservation.
select value from json_each(:owners)
where value not in (
    select r.owner
    from interlock_limit_reservation r
    join interlock_session s on s.namespace = r.namespace and s.id = r.session and s.expires_at > :now
    where r.namespace = :namespace and r.session = :session
      and (r.started or :now_us <= max(r.last_asked, r.at) + :stale))

-- name: session_requests
-- Select the live reservations of a session.
select min(u.key), r.owner
from interlock_limit_reservation r
join interlock_limit_use u on u.ticket = r.ticket
join interlock_session s on s.namespace = r.namespace and s.id = r.session and s.expires_at > :now
where r.namespace = :namespace and r.session = :session
  and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
group by r.ticket

-- name: first_waiting
-- Select the first waiters of a key, as many as there is room for.
with live as (
    select r.turn, r.owner, r.session, r.wait_kind = 1 /* slot */ and r.waits_for = u.key as waiting
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
    where u.namespace = :namespace and u.key = :key and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
)
select owner, session from live
where waiting
order by turn
limit :free

-- name: turns
-- In how many seconds each waiting reservation of a session should ask again. For keys that jobs use or whose figure is
-- overridden this is not known here: their waiters have a null and the key.
with mine as (
    select r.owner, r.at, r.wait_kind, r.waits_for
    from interlock_limit_reservation r
    join interlock_session s on s.namespace = r.namespace and s.id = r.session and s.expires_at > :now
    where r.namespace = :namespace and r.session = :session
      and not r.started and :now_us <= max(r.last_asked, r.at) + :stale
),
live as (
    select r.turn, r.owner, r.started, r.wait_kind = 1 /* slot */ and r.waits_for = u.key as waiting, r.session, u.key, u.max_count, u.per,
           s.expires_at
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
    where u.namespace = :namespace and u.key in (select waits_for from mine where wait_kind = 1 /* slot */)
      and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
),
room as (
    select l.key, coalesce(min(case when l.per = 0 then l.max_count end), 1000000000) - sum(l.started) as free,
           coalesce(min(case when l.started then l.expires_at end), 9e18) as ends_at,
           (select free_since from interlock_limit_key k where k.namespace = :namespace and k.key = l.key) as free_since
    from live l
    group by l.key
),
waiting as (
    select owner, session, key, row_number() over (partition by key order by turn) - 1 as ahead,
           coalesce(min(expires_at) over (
               partition by key order by turn rows between unbounded preceding and 1 preceding), 9e18) as ends_at
    from live
    where waiting
),
shared as (
    select l.key from (select distinct key from live) l
    where exists (select 1 from interlock_job_use x where x.namespace = :namespace and x.key = l.key)
       or exists (select 1 from interlock_job_limit_wait x where x.namespace = :namespace and x.key = l.key)
       or exists (select 1 from interlock_limit_override x where x.namespace = :namespace)
),
due as (
    select waiting.owner,
           case when waiting.key in (select key from shared) then null
                when waiting.ahead < room.free then 0
                else min(waiting.ends_at, room.ends_at,
                         case when room.free > 0 then
                             (coalesce(room.free_since, 0) + (waiting.ahead - room.free + 1) * :turn) / 1e6
                         else 9e18 end) - :now
           end as due_in, waiting.key
    from waiting
    join room on room.key = waiting.key
    where waiting.session = :session
    union all
    select owner, (at - :now_us) / 1e6, null from mine where wait_kind <> 1 /* slot */
)
select owner, due_in, key from due
order by max(due_in, 0), random()
limit 1000

-- name: sweepable_reservations
-- Select reservations that are stale or whose sessions have expired, in the order in which those expired.
select r.ticket, cast(round(min(coalesce(s.expires_at, 0), :now) * 1000000) as integer) as since, r.started
from interlock_limit_reservation r
left join interlock_session s on s.namespace = r.namespace and s.id = r.session
where r.namespace = :namespace
  and (coalesce(s.expires_at, 0) <= :now or not r.started and :now_us > max(r.last_asked, r.at) + :stale)
order by since
limit 1000

-- name: sweep_starts
-- Delete starts that no longer count, a bounded number at a time.
delete from interlock_limit_start
where (namespace, key, at, ticket) in (
    select namespace, key, at, ticket from interlock_limit_start
    where namespace = :namespace and counts_until <= :now_us
    limit 1000)

-- name: sweep_keys
-- Delete keys that nothing uses, a bounded number at a time.
delete from interlock_limit_key
where namespace = :namespace
  and key in (
      select k.key from interlock_limit_key k
      where k.namespace = :namespace
        and not exists (
            select 1 from interlock_limit_use u where u.namespace = k.namespace and u.key = k.key)
      limit 1000)
