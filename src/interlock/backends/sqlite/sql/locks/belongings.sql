select key, owner from interlock_lock where namespace = :namespace and session = :session and owner is not null
union all
select key, owner from interlock_waiter where namespace = :namespace and session = :session
