delete from interlock_job_use
where namespace = :namespace and key = :key and id in (select value from json_each(:ids))
