select kind, count(*) from interlock_job where lane is not null and position > 0 group by kind
