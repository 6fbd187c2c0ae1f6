update interlock_job_claimed set told = 1 where lane = :lane
