delete from interlock_job_history where id in (select value from json_each(:ids))
