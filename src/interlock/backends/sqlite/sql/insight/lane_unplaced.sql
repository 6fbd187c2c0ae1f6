select id from interlock_job where lane = :lane and position is null order by id limit :limit
