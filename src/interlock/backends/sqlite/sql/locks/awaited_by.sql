select distinct w.key
from interlock_waiter w
join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now
where w.namespace = :namespace and w.session = :session and (w.gives_up_at is null or w.gives_up_at > :now)
order by w.key
limit :limit
