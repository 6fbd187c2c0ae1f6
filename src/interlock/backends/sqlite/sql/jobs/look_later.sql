select id from interlock_job_later where kind in (select value from json_each(:kinds)) order by id desc limit :limit
