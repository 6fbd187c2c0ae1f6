insert into interlock_forced (namespace, session, owner, why, at)
values (:namespace, :session, :owner, :why, :now)
on conflict do nothing
