-- Lanes with jobs and lanes that are held, by name. Each step finds the next one, however many jobs a lane has.
with recursive busy (lane) as (
    select (select min(j.lane) from interlock_job j where j.lane > :first and j.lane < :beyond)
    union all
    select (select min(j.lane) from interlock_job j where j.lane > busy.lane and j.lane < :beyond)
    from busy
    where busy.lane is not null
)
select lane from interlock_job_hold where lane > :first and lane < :beyond
union
select lane from (
    select lane from busy
    where lane is not null
      and exists (select 1 from interlock_job j where j.lane = busy.lane and j.position > 0)
    limit :limit)
order by 1
limit :limit
