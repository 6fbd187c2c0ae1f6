delete from interlock_forced where namespace = :namespace and at < :now - 3600
