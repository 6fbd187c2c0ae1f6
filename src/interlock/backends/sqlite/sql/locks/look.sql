select l.key, l.owner, l.party, l.session, l.fence, l.granted_at, l.expires_at, l.free_since,
       s.expires_at, s.host, s.pid, s.program
from interlock_lock l
left join interlock_session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = :namespace and l.key > :after
  and (l.owner is not null and min(l.expires_at, coalesce(s.expires_at, 0)) > :now
       or exists (
           select 1 from interlock_waiter w
           join interlock_session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > :now
           where w.namespace = l.namespace and w.key = l.key and (w.gives_up_at is null or w.gives_up_at > :now)))
order by l.key
limit :limit
