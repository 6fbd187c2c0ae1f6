-- name: quotas
-- Select the capacities and periods that fetched jobs declare for a key, and how many jobs declare each.
select max_count, per, count(*) from interlock_job_use where namespace = :namespace and key = :key group by max_count, per

-- name: add_uses
-- Record that jobs use a key.
insert into interlock_job_use (namespace, key, id, max_count, per)
select :namespace, :key, value, :max_count, :per from json_each(:ids)

-- name: delete_uses
-- Record that jobs no longer use a key.
delete from interlock_job_use
where namespace = :namespace and key = :key and id in (select value from json_each(:ids))

-- name: add_start
-- Record a start that counts against a rate or cooldown.
insert into interlock_job_limit_start (namespace, key, at, number, id, counts_until) values (?, ?, ?, ?, ?, ?)

-- name: start_before
-- Read the time of the start so many before the last one.
select at from interlock_job_limit_start where namespace = :namespace and key = :key order by at desc limit 1 offset :before

-- name: starts_after
-- Count the starts on a key after a time.
select count(*) from interlock_job_limit_start where namespace = :namespace and key = :key and at > :after

-- name: delete_last_start
-- Delete the last start of a job that never ran.
delete from interlock_job_limit_start
where namespace = :namespace and key = :key and number = (
    select max(number) from interlock_job_limit_start where namespace = :namespace and key = :key and id = :id)

-- name: delete_old_starts
-- Delete a key's starts that no longer count.
delete from interlock_job_limit_start where namespace = ? and key = ? and at <= ? and counts_until <= ?

-- name: first_waiting
-- Select the first jobs of one kind in a limit's queue.
select ticket from interlock_job_limit_wait
where namespace = :namespace and key = :key and kind = :kind
order by ticket
limit :limit

-- name: limit_queue
-- Select the jobs of one kind in a limit's queue. The reader stops when it has enough.
select w.ticket, w.id, w.woken, j.uses
from interlock_job_limit_wait w
cross join interlock_job j on j.id = w.id
where w.namespace = ? and w.key = ? and w.kind = ?
order by w.ticket

-- name: limit_queues
-- Select which of some keys have waiters, and the kinds of the jobs in it, however many jobs there are.
select e.value, k.id
from json_each(:keys) e
cross join interlock_job_kind k on k.namespace = :namespace
where exists (select 1 from interlock_job_limit_wait w where w.namespace = :namespace and w.key = e.value)
  and exists (select 1 from interlock_job_limit_wait w where w.namespace = :namespace and w.key = e.value and w.kind = k.id)
order by e.key, k.id

-- name: mark_woken
-- Mark jobs in waiters as woken, so that they are tried again.
update interlock_job_limit_wait set woken = 1 where id in (select value from json_each(:ids))

-- name: set_wake
-- Set when a limit's queue may move.
insert into interlock_job_wake (namespace, key, at) values (:namespace, :key, :at)
on conflict (namespace, key) do update set at = excluded.at

-- name: wakes_due
-- Select keys whose queues may move now.
select key from interlock_job_wake where namespace = :namespace and at <= :now order by at limit 1000

-- name: delete_wake
-- Clear when a limit's queue may move.
delete from interlock_job_wake where namespace = :namespace and key = :key

-- name: reserved
-- Read whether reservations use a key, and the figure that a person set for it or for all keys of its limit.
select exists (select 1 from interlock_limit_use u where u.namespace = :namespace and u.key = :key)
       or exists (select 1 from interlock_limit_start t where t.namespace = :namespace and t.key = :key),
       (select o.max_count from interlock_limit_override o
        where o.namespace = :namespace and o.name in (:key, :name) order by o.name = :key desc limit 1),
       (select o.per from interlock_limit_override o
        where o.namespace = :namespace and o.name in (:key, :name) order by o.name = :key desc limit 1)

-- name: reservations_of_key
-- Select the live reservations on a key, in the order of their turns.
select r.mark, r.started, r.at, r.wait_kind = 1 /* slot */ and r.waits_for = u.key, u.max_count, u.per,
       cast(round(s.expires_at * 1000000) as integer)
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now_s
where u.namespace = :namespace and u.key = :key and (r.started or :now <= max(r.last_asked, r.at) + :stale)
order by r.turn

-- name: reserved_starts
-- Select the starts of reservations that a key's rate or cooldown counts, in order.
select at from interlock_limit_start where namespace = :namespace and key = :key order by at

-- name: reserved_free_since
-- Read since when a key with waiting reservations has had room.
select free_since from interlock_limit_key where namespace = :namespace and key = :key

-- name: set_reserved_free_since
-- Record since when a key with waiting reservations has had room.
insert into interlock_limit_key (namespace, key, free_since) values (:namespace, :key, :now)
on conflict (namespace, key) do update set free_since = :now

-- name: start_times
-- Select the starts of a key's jobs after a time, in order.
select at from interlock_job_limit_start where namespace = :namespace and key = :key and at > :after order by at

-- name: served_kinds
-- Select the kinds that a live worker takes.
select k.id
from interlock_job_kind k
where k.namespace = :namespace and exists (
    select 1 from interlock_job_worker x
    join interlock_session s on s.namespace = x.namespace and s.id = x.session and s.expires_at > :now_s
    where x.namespace = :namespace and x.ended_at is null
      and exists (select 1 from json_each(x.queues) q where q.value = k.queue)
      and exists (select 1 from json_each(x.names) n where n.value = k.name))
  and not exists (select 1 from interlock_queue_pause p where p.namespace = :namespace and p.queue = k.queue)
