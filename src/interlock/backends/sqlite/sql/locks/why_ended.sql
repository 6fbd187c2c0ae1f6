select ended_why from interlock_lock where namespace = :namespace and key = :key and ended_owner = :owner
