select count(*) from interlock_limit_start where namespace = :namespace and key = :key and at > :after
