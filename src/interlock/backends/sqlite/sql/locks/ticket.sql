select ticket from interlock_waiter where namespace = :namespace and owner = :owner and key = :key
