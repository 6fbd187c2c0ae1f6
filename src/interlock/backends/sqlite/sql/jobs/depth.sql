select count(*) from (select 1 from interlock_job where lane = :lane and position > 0 limit :limit)
