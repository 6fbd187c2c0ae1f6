update interlock_job_wait set woken = 1 where id in (select value from json_each(:ids))
