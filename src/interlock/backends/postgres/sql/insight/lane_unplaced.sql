-- Jobs of a lane that wait for their time and for a place in it, among the first to be due.
select x.id
from (
    select l.id, l.at, l.lane from interlock.job_scheduled l
    where l.pool >= $1 || '/' and l.pool < $1 || '0' order by l.pool, l.at limit 10000) x
join interlock.job j on j.id = x.id and j.position is null
where x.lane = $1 || '/' || $2
order by x.at, x.id
limit $3
