select received_at from interlock_event where id = :id and namespace = :namespace
