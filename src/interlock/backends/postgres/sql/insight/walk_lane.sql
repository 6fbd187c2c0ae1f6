-- Of a lane, the last in it first: about the newest first. Those without a place come on top.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)),
           '{}'), min(x.id), count(*)
from (
    (select j.id, j.pool, j.name from interlock.job j
     where j.lane = $1 || '/' || $6 and j.position is not null and j.id < $4 order by j.position desc limit $5)
    union all
    (select j.id, j.pool, j.name from interlock.job_scheduled l join interlock.job j on j.id = l.id
     where l.lane = $1 || '/' || $6 and l.pool >= $1 || '/' and l.pool < $1 || '0' and j.position is null and j.id < $4
     limit 1000)) x
