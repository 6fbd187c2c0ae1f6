insert into interlock_waiter (ticket, namespace, key, owner, party, session, asked_at, gives_up_at)
values (:ticket, :namespace, :key, :owner, :party, :session, :now, :now + :wait)
