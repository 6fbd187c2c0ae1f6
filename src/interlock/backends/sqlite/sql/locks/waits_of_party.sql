select w.key, l.party
from interlock_waiter w
join interlock_lock l on l.namespace = w.namespace and l.key = w.key and l.owner is not null and l.expires_at > :now
join interlock_session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > :now
join interlock_session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > :now
where w.namespace = :namespace and w.party = :party and (w.gives_up_at is null or w.gives_up_at > :now)
order by w.ticket
