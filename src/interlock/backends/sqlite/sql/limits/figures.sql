select distinct u.most, u.per
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
where u.namespace = :namespace and u.key = :key and (r.started or :now_us <= max(r.last_asked, r.at) + :stale)
