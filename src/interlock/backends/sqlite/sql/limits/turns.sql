-- In how many seconds each waiting reservation of a session should ask again.
with mine as (
    select r.owner, r.at, r.waits, r.place
    from interlock_limit_reservation r
    join interlock_session s on s.namespace = r.namespace and s.id = r.session and s.expires_at > :now
    where r.namespace = :namespace and r.session = :session
      and not r.started and :now_us <= max(r.last_asked, r.at) + :stale
),
live as (
    select r.turn, r.owner, r.started, r.waits = 1 and r.place = u.key as in_line, r.session, u.key, u.most, u.per,
           s.expires_at
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
    where u.namespace = :namespace and u.key in (select place from mine where waits = 1)
      and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
),
room as (
    select l.key, coalesce(min(case when l.per = 0 then l.most end), 1000000000) - sum(l.started) as free,
           coalesce(min(case when l.started then l.expires_at end), 9e18) as ends_at,
           (select free_since from interlock_limit_key k where k.namespace = :namespace and k.key = l.key) as free_since
    from live l
    group by l.key
),
line as (
    select owner, session, key, row_number() over (partition by key order by turn) - 1 as ahead,
           coalesce(min(expires_at) over (
               partition by key order by turn rows between unbounded preceding and 1 preceding), 9e18) as ends_at
    from live
    where in_line
),
due as (
    select line.owner,
           case when line.ahead < room.free then 0
                else min(line.ends_at, room.ends_at,
                         case when room.free > 0 then
                             (coalesce(room.free_since, 0) + (line.ahead - room.free + 1) * :claim) / 1e6
                         else 9e18 end) - :now
           end as due_in
    from line
    join room on room.key = line.key
    where line.session = :session
    union all
    select owner, (at - :now_us) / 1e6 from mine where waits <> 1
)
select owner, due_in from due
order by max(due_in, 0), random()
limit 1000
