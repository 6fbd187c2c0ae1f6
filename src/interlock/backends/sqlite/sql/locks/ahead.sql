select count(*), max(owner = :owner) from interlock_waiter
where namespace = :namespace and key = :key
  and ticket <= coalesce(
      (select ticket from interlock_waiter where namespace = :namespace and owner = :owner and key = :key),
      9223372036854775807)
