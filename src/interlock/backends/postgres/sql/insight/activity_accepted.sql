-- When the next unfinished jobs by number were accepted, by spans: all, the smallest number, and those of the namespace.
select x.enqueued_at / $2::bigint, count(*), min(x.id), count(*) filter (where x.pool >= $1 || '/' and x.pool < $1 || '0')
from (select j.id, j.pool, j.enqueued_at from interlock.job j where j.id < $3 order by j.id desc limit $4) x
group by 1
