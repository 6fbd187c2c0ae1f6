delete from interlock_lock
where namespace = :namespace and owner is null and free_since < :now - 60
  and not exists (
      select 1 from interlock_waiter w
      where w.namespace = interlock_lock.namespace and w.key = interlock_lock.key)
