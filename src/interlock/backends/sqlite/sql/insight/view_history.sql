select h.id, k.name, k.queue, h.lane, h.priority, h.state, h.attempt, h.crashes, h.enqueued_at, h.due_at, h.claimed_at,
       h.finished_at, h.ran, w.session, w.host, w.pid, w.program, h.fence, h.error, h.superseded_by, h.uses, '',
       h.options, '[' || json_extract(h.attempts, '$[#-1]') || ']', null, h.result_until
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace
left join interlock_job_worker w on w.id = h.worker
