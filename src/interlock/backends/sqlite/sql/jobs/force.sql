insert into interlock_forced (namespace, session, owner, why, at) values (:namespace, :session, :owner, :why, :now_s)
on conflict (namespace, session, owner) do update set why = excluded.why, at = excluded.at
