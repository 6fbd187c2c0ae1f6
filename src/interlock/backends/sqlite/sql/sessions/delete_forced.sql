delete from interlock_forced where namespace = :namespace and session = :id
