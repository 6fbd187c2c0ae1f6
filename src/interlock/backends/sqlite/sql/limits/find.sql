select ticket, turn, party, session, asked_at, at, started, waits, place,
       not started and :now_us > max(last_asked, at) + :stale
from interlock_limit_reservation
where namespace = :namespace and owner = :owner
