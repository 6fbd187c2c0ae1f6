update interlock_job_worker set ended_at = cast(:now * 1000000 as integer)
where namespace = :namespace and session = :id and ended_at is null
