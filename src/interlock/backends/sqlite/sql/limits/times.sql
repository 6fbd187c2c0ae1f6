select at from interlock_limit_start where namespace = :namespace and key = :key and at > :after
union all
select r.at
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
where u.namespace = :namespace and u.key = :key and u.ticket < :ticket
  and not r.started and r.at > :after and :now_us <= max(r.last_asked, r.at) + :stale
order by at
