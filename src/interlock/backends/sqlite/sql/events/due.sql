-- What was kept long enough, and whether one of its jobs is unfinished.
select e.id, exists (select 1 from json_each(e.jobs) x cross join interlock_job j on j.id = x.value)
from interlock_event e
where e.namespace = :namespace and e.kept_until <= :now
order by e.kept_until limit :limit
