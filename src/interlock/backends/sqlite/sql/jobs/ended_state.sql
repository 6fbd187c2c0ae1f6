select h.state
from interlock_job_history h
join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace
where h.id = :id
