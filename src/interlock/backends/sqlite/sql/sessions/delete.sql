delete from interlock_session where namespace = :namespace and id = :id
