-- The next lanes with jobs, by name. Each step finds the next one, however many jobs a lane has.
with recursive busy (lane, n) as (
    (select j.lane, 1 from interlock.job j
     where j.lane > $2 and j.lane < $1 || '0' and j.position is not null order by j.lane limit 1)
    union all
    select (select j.lane from interlock.job j
            where j.lane > b.lane and j.lane < $1 || '0' and j.position is not null order by j.lane limit 1), b.n + 1
    from busy b where b.lane is not null and b.n < $3
)
select b.lane from busy b where b.lane is not null
