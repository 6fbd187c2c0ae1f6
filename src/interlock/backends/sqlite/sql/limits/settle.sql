update interlock_limit_reservation
set last_asked = :now_us, at = :at, started = :started, waits = :waits, place = :place
where ticket = :ticket
