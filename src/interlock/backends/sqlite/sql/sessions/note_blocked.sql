update interlock_session set blocked_since = :now - :seconds, blocked_by = :by
where namespace = :namespace and id = :id
