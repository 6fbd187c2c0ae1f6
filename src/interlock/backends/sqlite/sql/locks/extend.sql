update interlock_lock set expires_at = :now + :ttl
where namespace = :namespace and key = :key and owner = :owner
