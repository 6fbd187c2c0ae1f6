select value from json_each(:ids)
where exists (select 1 from interlock_job where id = value) or exists (select 1 from interlock_job_history where id = value)
