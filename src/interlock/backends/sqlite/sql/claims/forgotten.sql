select why from interlock_forced where namespace = :namespace and owner = :owner
