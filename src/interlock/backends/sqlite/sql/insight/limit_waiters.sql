-- The first of one kind in a key's line.
select w.ticket, j.id, k.name, j.due_at
from interlock_job_wait w
cross join interlock_job j on j.id = w.id
join interlock_job_kind k on k.id = j.kind
where w.namespace = :namespace and w.key = :key and w.kind = :kind and not w.woken
order by w.ticket
limit :limit
