-- The jobs of a lane behind one, and whether they stand apart: parked, or waiting for their time.
select j.sort, j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.priority, j.enqueued_at / 1e6, j.due_at / 1e6,
       j.uses, j."coalesce", j.arguments, j.options, null,
       j.parked is not null or j.refused or exists (
           select 1 from interlock_job_later t where t.kind = j.kind and t.at = j.due_at and t.id = j.id),
       (select k.name from interlock_job_kind k where k.id = j.kind), j.half
from interlock_job j
where j.lane = ? and j.position > ?
order by j.position
