delete from interlock_job_wait where id in (select value from json_each(:ids)) returning key
