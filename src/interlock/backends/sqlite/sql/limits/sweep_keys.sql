delete from interlock_limit_key
where namespace = :namespace
  and key in (
      select k.key from interlock_limit_key k
      where k.namespace = :namespace
        and not exists (
            select 1 from interlock_limit_use u where u.namespace = k.namespace and u.key = k.key)
      limit 1000)
