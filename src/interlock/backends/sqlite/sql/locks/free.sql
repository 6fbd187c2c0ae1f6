update interlock_lock
set ended_owner = owner, ended_why = :why, owner = null, free_since = :at
where namespace = :namespace and key = :key and owner is not null
