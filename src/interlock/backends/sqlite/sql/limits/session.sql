select expires_at > :now, host, pid, program from interlock_session where namespace = :namespace and id = :session
