select id, queue, name from interlock_job_kind where namespace = :namespace order by id
