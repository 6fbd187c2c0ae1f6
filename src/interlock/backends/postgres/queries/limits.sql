-- name: ask
-- Make a reservation, or start it.
select answer, begins_at, waits_for, ahead, recheck_in, differs, null
from interlock.limit_ask($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, true, $12)

-- name: batch
-- Run several requests and ends in one transaction.
select answer, begins_at, waits_for, ahead, recheck_in, differs, next_owners
from interlock.limit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: finish
-- End a reservation.
select answer, null, null, null, null, null, next_owners from interlock.limit_finish($1, $2, $3, $4, true, $5)

-- name: list
-- List limits with their reservations.
with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($5) as now_is) given
),
keys as materialized (
    select k.key
    from interlock.job_limit k
    cross join clock
    where k.namespace = $1 and k.shared and ($2::text is null and k.key > $6::text or k.key = $2)
      and (exists (
               select from interlock.limit_use u
               join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
               where u.namespace = $1 and u.key = k.key
                 and (u.started and u.per = 0
                      or not u.started and now_us <= greatest(u.last_asked, u.at) + $4::bigint))
           or exists (
               select from interlock.limit_start t
               where t.namespace = $1 and t.key = k.key and t.at + t.per > now_us))
    order by k.key
    limit $3
),
uses as materialized (
    select u.key, u.ticket, u.owner, u.caller, u.session, s.host, s.pid, s.program, u.max_count, u.per, u.asked_at, u.at,
           u.started, u.wait_kind, u.waits_for
    from keys
    cross join clock
    join interlock.limit_use u on u.namespace = $1 and u.key = keys.key
    join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
    where u.started or now_us <= greatest(u.last_asked, u.at) + $4::bigint
),
starts as materialized (
    select t.* from keys
    cross join clock
    join interlock.limit_start t on t.namespace = $1 and t.key = keys.key
    where t.at + t.per > now_us
)
select keys.key, now_us,
       (select k.free_since from interlock.job_limit k where k.namespace = $1 and k.key = keys.key) as free_since,
       (select coalesce(jsonb_agg(jsonb_build_array(
           u.owner, u.caller, u.session, u.host, u.pid, u.program, u.max_count, u.per, u.asked_at, u.at, u.started, u.wait_kind,
           u.waits_for) order by u.ticket), '[]')
        from uses u where u.key = keys.key) as uses,
       (select coalesce(jsonb_agg(jsonb_build_array(
           t.owner, t.caller, t.session, t.host, t.pid, t.program, t.max_count, t.per, t.asked_at, t.at)
           order by t.at, t.ticket), '[]')
        from starts t where t.key = keys.key) as starts,
       (select coalesce(jsonb_agg(jsonb_build_array(
           interlock.micros(coalesce(s.expires_at, 'epoch')), u.started, case when u.per = 0 then u.max_count end)
           order by s.expires_at nulls first), '[]')
        from interlock.limit_use u
        left join interlock.session s on s.namespace = u.namespace and s.id = u.session
        where u.namespace = $1 and u.key = keys.key and (s.expires_at is null or s.expires_at <= now_is)) as dead
from keys
cross join clock
order by keys.key collate "C"

-- name: session_requests
-- List the keys and owners of a session's reservations.
select min(u.key collate "C"), u.owner
from interlock.limit_use u
cross join (select interlock.now_or($4) as now_is) clock
join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
where u.namespace = $1 and u.session = $2
  and (u.started or interlock.micros(now_is) <= greatest(u.last_asked, u.at) + $3::bigint)
group by u.owner

-- name: turns
-- In how many seconds each waiting reservation of a session should ask again; at once if it is one of $6 and
-- unknown.
with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($5) as now_is) given
),
mine as materialized (
    select u.owner, u.key, u.at, u.started, u.wait_kind, u.waits_for
    from interlock.limit_use u
    cross join clock
    join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
    where u.namespace = $1 and u.session = $2 and (u.started or now_us <= greatest(u.last_asked, u.at) + $4::bigint)
),
live as materialized (
    select u.ticket, u.owner, u.session, u.key, u.started, u.wait_kind = 1 and u.waits_for = u.key as waiting, u.max_count, u.per,
           s.expires_at
    from interlock.limit_use u
    cross join clock
    join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
    where u.namespace = $1 and u.key in (select mine.waits_for from mine where not mine.started and mine.wait_kind = 1)
      and (u.started or now_us <= greatest(u.last_asked, u.at) + $4::bigint)
),
frees as materialized (
    select k.key, interlock.limit_free($1, k.key, now_is, now_us - $4::bigint) as free
    from (select distinct l.key from live l) k cross join clock
),
places as (
    select l.owner, l.session, l.key, l.waiting, f.free,
           count(*) filter (where l.waiting) over before_it
               + case when l.waiting and f.free > 0
                      then least(f.free, (select j.ahead from interlock.limit_jobs($1, l.key, l.ticket, now_is) j)) else 0 end
               as ahead,
           least(min(l.expires_at) filter (where l.started) over by_key,
                 min(l.expires_at) filter (where l.waiting) over before_it) as ends_at
    from live l
    join frees f on f.key = l.key
    cross join clock
    window by_key as (partition by l.key),
           before_it as (partition by l.key order by l.ticket rows between unbounded preceding and 1 preceding)
),
due as (
    select p.owner,
           case when p.ahead < p.free then 0
                else least(extract(epoch from p.ends_at - now_is)::float8,
                           case when p.free > 0
                                then ((select coalesce(k.free_since, 0) from interlock.job_limit k
                                       where k.namespace = $1 and k.key = p.key)
                                      + (p.ahead - p.free + 1) * $3::bigint - now_us) / 1e6::float8
                           end)
           end as due_in
    from places p
    cross join clock
    where p.session = $2 and p.waiting
    union all
    select mine.owner, (min(mine.at) - min(now_us)) / 1e6::float8
    from mine cross join clock
    where not mine.started and mine.wait_kind <> 1
    group by mine.owner
)
select asked.owner, 0::float8 as due_in
from unnest($6::text[]) as asked (owner)
where asked.owner not in (select mine.owner from mine)
union all
(select owner, due_in from due order by greatest(due_in, 0), random() limit 1000)

-- name: resize
-- Set the figure of a limit, or remove it.
select changed, max_count, per, set_by, reason, set_at from interlock.limit_resize($1, $2, $3, $4, $5, $6)

-- name: overrides
-- List the figures that people have set.
select o.name, o.max_count, o.per, o.set_by, o.reason, o.set_at from interlock.limit_override o
where o.namespace = $1 order by o.name limit $2
