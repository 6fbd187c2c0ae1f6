select id from interlock_job where lane = :lane and position > 0 and position < :position order by position desc limit :limit
