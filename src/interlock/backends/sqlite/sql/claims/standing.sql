select owner, state from interlock_claim where namespace = :namespace and key = :key and kept_until > :now
