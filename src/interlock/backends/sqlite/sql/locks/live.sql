select 1 from interlock_lock l
join interlock_session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > :now
where l.namespace = :namespace and l.key = :key and l.owner = :owner and l.fence = :fence and l.expires_at > :now
