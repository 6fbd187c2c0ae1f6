select r.ticket, cast(round(min(coalesce(s.expires_at, 0), :now) * 1000000) as integer), r.started
from interlock_limit_reservation r
left join interlock_session s on s.namespace = r.namespace and s.id = r.session
where r.namespace = :namespace and r.session = :session
