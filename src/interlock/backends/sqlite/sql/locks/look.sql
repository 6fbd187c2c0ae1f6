select l.key, l.owner, l.party, l.session, l.fence, l.granted_at, l.expires_at, l.free_since,
       s.expires_at, s.host, s.pid, s.program
from interlock_lock l
left join interlock_session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = :namespace and (:key is null or l.key = :key)
order by l.key
limit :limit
