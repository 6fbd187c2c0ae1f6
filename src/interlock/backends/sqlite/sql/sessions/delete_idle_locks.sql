delete from interlock_lock
where namespace = :namespace and key in (
    select l.key from interlock_lock l
    where l.namespace = :namespace and l.owner is null and l.free_since < :now - 60
      and not exists (
          select 1 from interlock_waiter w
          where w.namespace = l.namespace and w.key = l.key)
    limit 10000)
