delete from interlock_waiter
where namespace = :namespace and key = :key
  and (gives_up_at <= :now
       or not exists (
           select 1 from interlock_session s
           where s.namespace = interlock_waiter.namespace and s.id = interlock_waiter.session and s.expires_at > :now))
