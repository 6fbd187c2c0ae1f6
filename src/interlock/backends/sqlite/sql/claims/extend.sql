update interlock_claim set expires_at = :now + :lease, keep = :keep, kept_until = :now + :lease + :keep
where namespace = :namespace and key = :key and owner = :owner
