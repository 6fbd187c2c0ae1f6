with clock as materialized (select interlock.micros(interlock.now_or($3)) as now_us)
select now_us, v.* from clock cross join lateral interlock.job_open_views($1) v where v.id = $2
union all
select now_us, v.* from clock cross join lateral interlock.job_ended_views($1, now_us) v where v.id = $2
