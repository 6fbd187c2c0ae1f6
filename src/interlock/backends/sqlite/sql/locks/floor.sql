select coalesce(max(ticket), 0) from interlock_waiter
where namespace = :namespace and key = :key and asked_at <= :now - :longest
