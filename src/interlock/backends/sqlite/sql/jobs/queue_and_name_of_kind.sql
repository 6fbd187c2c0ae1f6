select queue, name from interlock_job_kind where id = :kind
