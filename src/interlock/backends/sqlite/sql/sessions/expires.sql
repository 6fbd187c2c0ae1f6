update interlock_session set expires_at = :expires_at where namespace = :namespace and id = :id
