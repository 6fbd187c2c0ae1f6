select ended_owner, ended_why from interlock.lock where namespace = $1 and forced_from = $2
