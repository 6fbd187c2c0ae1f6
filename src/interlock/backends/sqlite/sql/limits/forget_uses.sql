delete from interlock_limit_use where ticket = :ticket
