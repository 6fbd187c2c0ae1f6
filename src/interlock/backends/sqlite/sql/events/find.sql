select e.id, e.source, e.delivery, e.type, e.actor, e.payload, e.received_at, e.replay_of, e.replayed_by, e.jobs
from json_each(:ids) x
cross join interlock_event e on e.id = x.value
where e.namespace = :namespace
