-- The next unfinished jobs by number: those that are wanted, the last that was looked at, and how many those were.
select coalesce(array_agg(x.id order by x.id desc) filter (
           where x.pool >= $1 || '/' and x.pool < $1 || '0' and ($2 = '' or x.name = $2) and ($3 = '' or x.pool = $1 || '/' || $3)),
           '{}'), min(x.id), count(*)
from (select j.id, j.pool, j.name from interlock.job j where j.id < $4 order by j.id desc limit $5) x
