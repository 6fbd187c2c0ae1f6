update interlock_lock
set ended_owner = owner, ended_why = 'its session ended', owner = null, free_since = :now
where namespace = :namespace and session = :id and owner is not null
