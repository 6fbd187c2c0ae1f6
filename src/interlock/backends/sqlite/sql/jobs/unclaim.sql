delete from interlock_job_claimed where id in (select value from json_each(:ids))
