-- The unfinished jobs of a lane, the last in it first: about the newest first.
select id, kind from interlock_job where lane = :lane and id < :before order by position desc limit :scan
