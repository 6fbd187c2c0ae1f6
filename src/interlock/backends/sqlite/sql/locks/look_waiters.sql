select w.owner, w.party, w.session, coalesce(s.host, ''), coalesce(s.pid, 0), coalesce(s.program, ''),
       w.asked_at, w.gives_up_at,
       coalesce(s.expires_at, 0) > :now and (w.gives_up_at is null or w.gives_up_at > :now)
from interlock_waiter w
left join interlock_session s on s.namespace = w.namespace and s.id = w.session
where w.namespace = :namespace and w.key = :key
order by w.ticket
limit :limit
