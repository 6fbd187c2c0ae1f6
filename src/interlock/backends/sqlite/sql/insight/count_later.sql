select count(*) from (select 1 from interlock_job_later where kind = :kind limit :limit)
