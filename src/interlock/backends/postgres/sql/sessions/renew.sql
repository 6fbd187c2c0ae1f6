update interlock.session set expires_at = interlock.now_or($4) + interlock.seconds($3)
where namespace = $1 and id = $2 and expires_at > interlock.now_or($4)
returning true
