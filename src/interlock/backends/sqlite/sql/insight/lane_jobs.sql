select id from interlock_job where lane = :lane and position > 0 order by position limit :limit
