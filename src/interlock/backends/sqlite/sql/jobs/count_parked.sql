select kind, count(*), sum(lane is not null and position is not null) from interlock_job where parked is not null group by kind
