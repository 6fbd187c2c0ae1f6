-- The next unfinished jobs by number, of whatever kind.
select id, kind from interlock_job where id < :before order by id desc limit :scan
