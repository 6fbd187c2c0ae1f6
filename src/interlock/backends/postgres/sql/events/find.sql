select e.id, e.source, e.delivery, e.type, e.actor, e.payload, e.received_at, e.replay_of, e.replayed_by, e.jobs,
       extract(epoch from interlock.now_or($3))::float8
from interlock.event e
where e.id = any ($2) and e.namespace = $1
