delete from interlock_limit_reservation where ticket = :ticket
