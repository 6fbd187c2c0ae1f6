select coalesce(array_agg(x.id order by x.id desc) filter (
           where ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)
             and ($7::smallint[] is null or x.state = any ($7))),
           '{}'), min(x.id), count(*)
from (
    select h.id, h.pool, h.name, h.state from interlock.job_history h
    where h.lane = $1 || '/' || $6 and h.id < $4 order by h.id desc limit $5) x
