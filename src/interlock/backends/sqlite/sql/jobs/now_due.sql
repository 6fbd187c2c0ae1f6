update interlock_job set due_at = :now, parked = null, refused = 0, refused_by = null where id = :id
