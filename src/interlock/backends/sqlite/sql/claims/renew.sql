update interlock_claim set expires_at = :now + :lease, kept_until = :now + :lease + keep
where namespace = :namespace and key = :key and owner = :owner and state = 'in progress' and expires_at > :now
  and exists (
      select 1 from interlock_session s
      where s.namespace = interlock_claim.namespace and s.id = interlock_claim.session and s.expires_at > :now)
