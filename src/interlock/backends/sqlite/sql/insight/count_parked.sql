select kind, count(*), sum(follows)
from (
    select j.kind, j.lane is not null and exists (
               select 1 from interlock_job f where f.lane = j.lane and f.position > 0 and f.position < j.position) as follows
    from interlock_job j where j.parked is not null limit :limit)
group by kind
