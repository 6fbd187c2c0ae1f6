update interlock_lock set expires_at = :now + :ttl
where namespace = :namespace and key = :key and owner = :owner and expires_at > :now
  and exists (
      select 1 from interlock_session s
      where s.namespace = interlock_lock.namespace and s.id = interlock_lock.session and s.expires_at > :now)
