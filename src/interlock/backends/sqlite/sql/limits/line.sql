-- The first in a key's line, as many as there is room for.
with live as (
    select r.turn, r.owner, r.session, r.started, u.most, u.per, r.waits = 1 and r.place = u.key as in_line
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
    where u.namespace = :namespace and u.key = :key and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
)
select owner, session from live
where in_line
order by turn
limit (select max(0, coalesce(min(case when per = 0 then most end), 1000) - coalesce(sum(started), 0)) from live)
