delete from interlock_job where id in (select value from json_each(:ids))
