select id from interlock_job_ready where kind in (select value from json_each(:kinds))
union all
select id from interlock_job where refused and parked is null and kind in (select value from json_each(:kinds))
order by id desc
limit :limit
