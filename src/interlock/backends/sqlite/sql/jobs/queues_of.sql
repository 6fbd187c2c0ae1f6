select distinct queue from interlock_job_kind where id in (select value from json_each(:kinds))
