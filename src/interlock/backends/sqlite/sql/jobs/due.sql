select t.at, t.id, t.kind, t.placed, j.lane
from interlock_job_later t
cross join interlock_job j on j.id = t.id
where t.kind = :kind and t.at <= :now
order by t.at, t.id
limit :limit
