-- Of those that ended in one way other than being done.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where x.pool >= $1 || '/' and x.pool < $1 || '0' and ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)),
           '{}'), min(x.id), count(*)
from (
    select h.id, h.pool, h.name from interlock.job_history h
    where h.state = $6::smallint and h.state <> 0 and h.id < $4 order by h.id desc limit $5) x
