delete from interlock_job_result where id in (select value from json_each(:ids))
