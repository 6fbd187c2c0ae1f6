delete from interlock_limit_key
where namespace = :namespace
  and not exists (
      select 1 from interlock_limit_use u
      where u.namespace = interlock_limit_key.namespace and u.key = interlock_limit_key.key)
