select owner from interlock_waiter where namespace = :namespace and key = :key order by ticket limit 1
