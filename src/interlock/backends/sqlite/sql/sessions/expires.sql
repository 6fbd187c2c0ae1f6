update interlock_session set expires_at = :expires_at, blocked_since = :blocked_since, blocked_by = :blocked_by
where namespace = :namespace and id = :id
