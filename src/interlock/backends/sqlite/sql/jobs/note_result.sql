update interlock_job_history set result_until = finished_at + keep_result where id = :id
