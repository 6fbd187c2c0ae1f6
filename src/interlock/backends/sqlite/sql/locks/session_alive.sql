select 1 from interlock_session where namespace = :namespace and id = :session and expires_at > :now
