-- What ended since a time, by when it ended and when it was accepted.
select h.finished_at / $2::bigint, h.enqueued_at / $2::bigint, count(*) filter (where h.state = 0),
       count(*) filter (where h.state in (1, 5)), count(*)
from interlock.job_history h
where h.finished_at >= $3::bigint and h.pool >= $1 || '/' and h.pool < $1 || '0'
group by 1, 2
