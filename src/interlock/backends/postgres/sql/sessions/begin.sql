insert into interlock.session (namespace, id, host, pid, program, begun_at, expires_at)
values ($1, $2, $3, $4, $5, interlock.now_or($7), interlock.now_or($7) + interlock.seconds($6))
on conflict (namespace, id) do nothing
