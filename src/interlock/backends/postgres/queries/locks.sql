-- name: ask
-- Acquire a key or queue for it.
select answer, fence, expires_at, recheck_in, details, null, null
from interlock.lock_ask($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: batch
-- Run several requests and releases in one transaction.
select answer, fence, expires_at, recheck_in, details, why, next_owner
from interlock.lock_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: leave
-- Release a lease or leave the queue.
select case when held then 'left' else 'absent' end, fence, expires_at, null, null, why, next_owner
from interlock.lock_leave($1, $2, $3, $4, true, $5)

-- name: renew
-- Renew leases.
select owner, expires_at, why from interlock.lock_renew($1, $2, $3, $4, $5)

-- name: force
-- Take a key from its holder.
select interlock.lock_force($1, $2, $3, $4::jsonb, $5)

-- name: guard
-- Check a lease inside the caller's transaction.
select interlock.lock_guard($1, $2, $3, $4, $5)

-- name: count
-- Count held keys and waiters.
with clock as materialized (select interlock.now_or($3) as now_is),
live as materialized (
    select s.id from interlock.session s cross join clock where s.namespace = $1 and s.expires_at > now_is
)
select (select count(*) from (
           select from interlock.lock l join live on live.id = l.session
           where l.namespace = $1 and l.owner is not null and l.expires_at > now_is limit $2::integer) x),
       (select count(*) from (
           select from interlock.waiter w join live on live.id = w.session
           where w.namespace = $1 and (w.gives_up_at is null or w.gives_up_at > now_is) limit $2::integer) x),
       extract(epoch from now_is)::float8
from clock

-- name: list
-- List keys that are held or waited for.
select extract(epoch from now_is)::float8 as seen_at, l.key,
       l.owner, l.caller, l.session, s.host, s.pid, s.program, l.fence,
       extract(epoch from l.granted_at)::float8 as granted_at,
       case when l.owner is not null
            then extract(epoch from least(l.expires_at, coalesce(s.expires_at, to_timestamp(0))))::float8 end as ends_at,
       extract(epoch from nullif(l.free_since, 'epoch'))::float8 as free_since,
       coalesce((
           select jsonb_agg(jsonb_build_array(
               w.owner, w.caller, w.session, coalesce(ws.host, ''), coalesce(ws.pid, 0), coalesce(ws.program, ''),
               extract(epoch from w.asked_at), extract(epoch from w.gives_up_at),
               coalesce(ws.expires_at > now_is, false) and (w.gives_up_at is null or w.gives_up_at > now_is)
               ) order by w.ticket)
           from (
               select x.* from interlock.waiter x
               where x.namespace = l.namespace and x.key = l.key order by x.ticket limit $4::integer) w
           left join interlock.session ws on ws.namespace = w.namespace and ws.id = w.session), '[]') as waiters,
       case when $4::integer is null then 0 else greatest(0, (
           select count(*) from (
               select from interlock.waiter x where x.namespace = l.namespace and x.key = l.key limit $4::integer + 10000) x)
           - $4::integer) end as more
from interlock.lock l
cross join (select interlock.now_or($5) as now_is) clock
left join interlock.session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = $1 and l.key > $2
  and (l.owner is not null and l.expires_at > now_is and s.expires_at > now_is
       or exists (
           select from interlock.waiter w
           join interlock.session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > now_is
           where w.namespace = l.namespace and w.key = l.key and (w.gives_up_at is null or w.gives_up_at > now_is)))
order by l.key
limit $3

-- name: get
-- Read one key with its holder and waiters.
select extract(epoch from now_is)::float8 as seen_at, l.key,
       l.owner, l.caller, l.session, s.host, s.pid, s.program, l.fence,
       extract(epoch from l.granted_at)::float8 as granted_at,
       case when l.owner is not null
            then extract(epoch from least(l.expires_at, coalesce(s.expires_at, to_timestamp(0))))::float8 end as ends_at,
       extract(epoch from nullif(l.free_since, 'epoch'))::float8 as free_since,
       coalesce((
           select jsonb_agg(jsonb_build_array(
               w.owner, w.caller, w.session, coalesce(ws.host, ''), coalesce(ws.pid, 0), coalesce(ws.program, ''),
               extract(epoch from w.asked_at), extract(epoch from w.gives_up_at),
               coalesce(ws.expires_at > now_is, false) and (w.gives_up_at is null or w.gives_up_at > now_is)
               ) order by w.ticket)
           from (
               select x.* from interlock.waiter x
               where x.namespace = l.namespace and x.key = l.key order by x.ticket limit $3::integer) w
           left join interlock.session ws on ws.namespace = w.namespace and ws.id = w.session), '[]') as waiters,
       case when $3::integer is null then 0 else greatest(0, (
           select count(*) from (
               select from interlock.waiter x where x.namespace = l.namespace and x.key = l.key limit $3::integer + 10000) x)
           - $3::integer) end as more
from interlock.lock l
cross join (select interlock.now_or($4) as now_is) clock
left join interlock.session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = $1 and l.key = any ($2::text[])
  and (l.owner is not null and l.expires_at > now_is and s.expires_at > now_is
       or exists (
           select from interlock.waiter w
           join interlock.session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > now_is
           where w.namespace = l.namespace and w.key = l.key and (w.gives_up_at is null or w.gives_up_at > now_is)))
order by l.key

-- name: awaited_by
-- List the keys that a caller waits for.
select distinct w.key
from interlock.waiter w
cross join (select interlock.now_or($4) as now_is) clock
join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > now_is
where w.session = $2 and w.namespace = $1 and (w.gives_up_at is null or w.gives_up_at > now_is)
order by w.key
limit $3

-- name: session_requests
-- List the keys and owners of a session's leases and waits.
select key, owner from interlock.lock where namespace = $1 and session = $2 and owner is not null
union all
select key, owner from interlock.waiter where namespace = $1 and session = $2

-- name: turns
-- In how many seconds each waiter of a session should ask again.
with clock as (
    select interlock.now_or($4) as now_is
),
live as (
    select w.owner, w.session, w.key, row_number() over (partition by w.key order by w.ticket) - 1 as ahead
    from interlock.waiter w
    join interlock.session s on s.namespace = w.namespace and s.id = w.session
    cross join clock
    where w.namespace = $1 and s.expires_at > now_is and (w.gives_up_at is null or w.gives_up_at > now_is)
      and w.key in (select mine.key from interlock.waiter mine where mine.namespace = $1 and mine.session = $2)
),
mine as (
    select live.owner, live.ahead, now_is, l.owner is not null as owned, l.free_since,
           least(l.expires_at, coalesce(s.expires_at, 'epoch')) as ends_at
    from live
    join interlock.lock l on l.namespace = $1 and l.key = live.key
    left join interlock.session s on s.namespace = l.namespace and s.id = l.session
    cross join clock
    where live.session = $2
)
select owner, 0::float8 as due_in
from unnest($5::text[]) as asked (owner)
where not exists (select from interlock.waiter w where w.namespace = $1 and w.owner = asked.owner)
union all
(select owner,
       extract(epoch from case when owned and ends_at > now_is then ends_at
                               when owned then least(ends_at, now_is) + interlock.seconds(ahead * $3)
                               else least(free_since, now_is) + interlock.seconds(ahead * $3) end - now_is)::float8 as due_in
from mine
order by due_in
limit 100)
