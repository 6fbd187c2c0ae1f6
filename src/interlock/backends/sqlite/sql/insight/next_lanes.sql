-- The next lanes with jobs, by name. Each step finds the next one, however many jobs a lane has.
with recursive busy (lane) as (
    select (select min(j.lane) from interlock_job j where j.lane > :after and j.lane < :beyond)
    union all
    select (select min(j.lane) from interlock_job j where j.lane > busy.lane and j.lane < :beyond)
    from busy
    where busy.lane is not null
)
select lane, exists (select 1 from interlock_job j where j.lane = busy.lane and j.position > 0)
from busy
where lane is not null
limit :scan
