select id from interlock_job_history where kind = :kind and finished_at <= :before order by finished_at limit :limit
