delete from interlock_limit_start
where namespace = :namespace and key = :key and at <= :before and counts_until <= :now
