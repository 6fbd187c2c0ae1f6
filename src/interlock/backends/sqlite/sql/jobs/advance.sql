-- Offer the heads of lanes, unless a job of theirs is claimed, somebody holds them, or the head waits for something.
insert or ignore into interlock_job_ready (kind, care, sort, id, priority, lane)
select j.kind, j.care, j.sort, j.id, j.priority, j.lane
from (select distinct value as lane from json_each(:lanes)) l
cross join interlock_job j on j.id = (
    select h.id from interlock_job h where h.lane = l.lane and h.position > 0 order by h.position limit 1)
where j.parked is null and not j.refused
  and not exists (select 1 from interlock_job_claimed c where c.lane = l.lane)
  and not exists (select 1 from interlock_job_hold h where h.lane = l.lane)
  and not exists (select 1 from interlock_job_later t where t.kind = j.kind and t.at = j.due_at and t.id = j.id)
  and not exists (select 1 from interlock_job_wait w where w.id = j.id)
returning kind
