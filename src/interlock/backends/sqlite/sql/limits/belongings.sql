select min(u.key), r.owner
from interlock_limit_reservation r
join interlock_limit_use u on u.ticket = r.ticket
join interlock_session s on s.namespace = r.namespace and s.id = r.session and s.expires_at > :now
where r.namespace = :namespace and r.session = :session
  and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
group by r.ticket
