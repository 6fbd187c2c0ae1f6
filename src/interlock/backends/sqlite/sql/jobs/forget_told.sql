delete from interlock_forced where namespace = ? and session = ? and owner = ?
