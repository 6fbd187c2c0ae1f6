select ended_owner, ended_why from interlock_lock where namespace = :namespace and forced_from = :session
