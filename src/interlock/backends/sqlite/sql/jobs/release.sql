delete from interlock_job_hold where lane = :lane
