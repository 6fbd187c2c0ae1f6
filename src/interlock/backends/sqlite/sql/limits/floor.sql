select coalesce(max(r.turn), 0)
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
where u.namespace = :namespace and u.key in (select value from json_each(:keys))
  and not r.started and r.asked_at <= :now_us - :longest
