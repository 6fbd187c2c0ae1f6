-- What nobody comes for, and what belongs to sessions that have ended, in the order in which those did.
select r.ticket, cast(round(min(coalesce(s.expires_at, 0), :now) * 1000000) as integer) as since, r.started
from interlock_limit_reservation r
left join interlock_session s on s.namespace = r.namespace and s.id = r.session
where r.namespace = :namespace
  and (coalesce(s.expires_at, 0) <= :now or not r.started and :now_us > max(r.last_asked, r.at) + :stale)
order by since
limit 1000
