select id from interlock_job where lane = :lane and position > :position order by position limit :limit
