select id from interlock_job where parked is not null and kind in (select value from json_each(:kinds)) order by id desc limit :limit
