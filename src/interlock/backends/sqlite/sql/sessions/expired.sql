select id from interlock_session where namespace = :namespace and expires_at < :now - 3600 limit 100
