-- Those who died and were not cleared away yet.
select u.key, cast(round(coalesce(s.expires_at, 0) * 1000000) as integer) as died_at, r.started,
       case when u.per = 0 then u.most end
from interlock_limit_use u
join interlock_limit_reservation r on r.ticket = u.ticket
left join interlock_session s on s.namespace = u.namespace and s.id = r.session
where u.namespace = :namespace and u.key in (select value from json_each(:keys)) and coalesce(s.expires_at, 0) <= :now
order by died_at
