select u.key, r.owner, r.party, r.session, s.host, s.pid, s.program, u.most, u.per, r.asked_at, r.at, r.started,
       r.waits, r.place
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
where u.namespace = :namespace and u.key in (select value from json_each(:keys))
  and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
order by u.key, r.turn
