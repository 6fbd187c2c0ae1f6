insert into interlock_lock (namespace, key, owner, party, session, fence, granted_at, expires_at)
values (:namespace, :key, :owner, :party, :session, :fence, :now, :now + :ttl)
on conflict (namespace, key) do update
set owner = :owner, party = :party, session = :session, fence = :fence, granted_at = :now,
    expires_at = :now + :ttl, free_since = null
