select count(*) from (select 1 from interlock_job_ready where kind = :kind limit :limit)
