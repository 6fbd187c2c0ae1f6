select id from interlock_job_history
where state = :state and state <> 'done' and +kind in (select value from json_each(:kinds))
order by id desc
limit :limit
