select distinct j.lane
from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id) join interlock.job j on j.id = o.id
where c.namespace = $1 and c.runs is not null and j.lane > $2 and j.lane < $1 || '0'
order by j.lane limit $3
