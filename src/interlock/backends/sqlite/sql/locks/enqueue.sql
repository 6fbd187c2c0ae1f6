insert into interlock_waiter (namespace, key, owner, party, session, asked_at, gives_up_at)
values (:namespace, :key, :owner, :party, :session, :now, :now + :wait)
