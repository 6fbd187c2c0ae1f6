select id from interlock_job_use where namespace = :namespace and key = :key order by id limit :limit
