select id from interlock_job_history where +kind in (select value from json_each(:kinds)) and state = 'done' order by id desc limit :limit
