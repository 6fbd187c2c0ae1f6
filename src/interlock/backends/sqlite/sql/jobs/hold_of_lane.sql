select held_by, held_reason, held_since, parked_reason, parked_since from interlock_job_hold where lane = :lane
