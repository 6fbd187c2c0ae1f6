update interlock_job set due_at = :now, parked = null where id = :id
