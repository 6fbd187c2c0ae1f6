select owner, why from interlock_forced where namespace = :namespace and session = :session
