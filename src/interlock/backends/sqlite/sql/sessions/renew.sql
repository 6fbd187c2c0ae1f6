update interlock_session set expires_at = :now + :seconds
where namespace = :namespace and id = :id and expires_at > :now
