select owner, why from interlock.forced where namespace = $1 and session = $2
