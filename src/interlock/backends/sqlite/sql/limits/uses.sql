select key, most, per from interlock_limit_use where ticket = :ticket order by key
