select count(*) from interlock_waiter where namespace = :namespace and key = :key and ticket < :ticket
