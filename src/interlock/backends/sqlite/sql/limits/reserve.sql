insert into interlock_limit_reservation
    (turn, namespace, owner, party, session, asked_at, last_asked, at, started, waits, place)
values (:turn, :namespace, :owner, :party, :session, :now_us, :now_us, :at, :started, :waits, :place)
returning ticket
