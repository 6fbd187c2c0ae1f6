insert into interlock_session (namespace, id, host, pid, program, begun_at, expires_at)
values (:namespace, :id, :host, :pid, :program, :now, :now + :seconds)
on conflict (namespace, id) do nothing
