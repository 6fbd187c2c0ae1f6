-- Counted as the rows are, the dead included.
select min(case when u.per = 0 then u.most end), coalesce(sum(r.started), 0),
       coalesce(max(r.waits = 1 and r.place = u.key), 0)
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
where u.namespace = :namespace and u.key = :key
