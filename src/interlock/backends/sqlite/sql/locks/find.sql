select l.owner, l.party, l.session, l.fence, l.granted_at, l.expires_at, l.free_since,
       coalesce(s.expires_at, 0), s.host, s.pid, s.program,
       exists (select 1 from interlock_waiter w where w.namespace = l.namespace and w.key = l.key)
from interlock_lock l
left join interlock_session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = :namespace and l.key = :key
