update interlock_claim
set state = :state, expires_at = null, settled_at = :now, retry_at = :now + :retry_in, error = :error, result = :result,
    kept_until = :now + coalesce(:retry_in, 0) + :keep
where namespace = :namespace and key = :key and owner = :owner and state = 'in progress' and kept_until > :now
