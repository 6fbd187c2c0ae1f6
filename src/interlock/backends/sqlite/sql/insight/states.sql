select id, state from interlock_job_standing where id in (select value from json_each(:ids))
