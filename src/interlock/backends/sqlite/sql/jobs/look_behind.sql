select id from interlock_job_standing
where lane is not null and +kind in (select value from json_each(:kinds)) and state = 'behind'
order by id desc
limit :limit
