update interlock_job_claimed set cancel = :why, told = 1 where id = :id returning fence
