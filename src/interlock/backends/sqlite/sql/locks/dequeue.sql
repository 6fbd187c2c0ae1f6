delete from interlock_waiter where namespace = :namespace and owner = :owner
