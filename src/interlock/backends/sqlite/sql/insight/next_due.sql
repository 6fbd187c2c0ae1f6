select min(at) from interlock_job_later where kind = :kind
