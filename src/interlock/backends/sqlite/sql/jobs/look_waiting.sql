select id from interlock_job_wait
where namespace = :namespace and not woken and kind in (select value from json_each(:kinds))
order by id desc
limit :limit
