delete from interlock_lock where namespace = :namespace and key = :key
