delete from interlock_claim where namespace = :namespace and key = :key
