-- name: limit_in_use
-- Check that a limit is in use or counts recent starts.
select key from (
    select u.key
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
    where u.namespace = :namespace and u.key = :key
      and (not r.started and :now_us <= max(r.last_asked, r.at) + :stale or r.started and u.per = 0)
    union
    select key from interlock_limit_start
    where namespace = :namespace and key = :key and at + per > :now_us
)

-- name: limits_in_use
-- List limits in use or with recent starts, by key. Each step finds the next key, so that keys beyond the limit are
-- not read.
with recursive next (key) as (
    select min(key) from (
        select min(u.key) as key from interlock_limit_use u where u.namespace = :namespace and u.key > :after
        union all
        select min(t.key) from interlock_limit_start t where t.namespace = :namespace and t.key > :after)
    union all
    select (
        select min(key) from (
            select min(u.key) as key from interlock_limit_use u where u.namespace = :namespace and u.key > next.key
            union all
            select min(t.key) from interlock_limit_start t where t.namespace = :namespace and t.key > next.key))
    from next where next.key is not null
)
select next.key
from next
where next.key is not null
  and (exists (
           select 1 from interlock_limit_use u
           join interlock_limit_reservation r on r.ticket = u.ticket
           join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
           where u.namespace = :namespace and u.key = next.key
             and (not r.started and :now_us <= max(r.last_asked, r.at) + :stale or r.started and u.per = 0))
       or exists (
           select 1 from interlock_limit_start t
           where t.namespace = :namespace and t.key = next.key and t.at + t.per > :now_us))
limit :limit

-- name: reservations
-- Select the live reservations on some keys, in order of their turns.
select u.key, r.owner, r.caller, r.session, s.host, s.pid, s.program, u.max_count, u.per, r.asked_at, r.at, r.started,
       r.wait_kind, r.waits_for
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
where u.namespace = :namespace and u.key in (select value from json_each(:keys))
  and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
order by u.key, r.turn

-- name: counted_starts
-- Select the starts that still count on some keys.
select key, owner, caller, session, host, pid, program, max_count, per, asked_at, at
from interlock_limit_start
where namespace = :namespace and key in (select value from json_each(:keys)) and at + per > :now_us
order by key, at, ticket

-- name: free_times
-- Read since when some keys have had room.
select key, free_since from interlock_limit_key
where namespace = :namespace and key in (select value from json_each(:keys))

-- name: undropped_deaths
-- Select dead reservations on some keys that are not dropped yet.
select u.key, cast(round(coalesce(s.expires_at, 0) * 1000000) as integer) as died_at, r.started,
       case when u.per = 0 then u.max_count end
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
left join interlock_session s on s.namespace = u.namespace and s.id = r.session
where u.namespace = :namespace and u.key in (select value from json_each(:keys)) and coalesce(s.expires_at, 0) <= :now
order by died_at
