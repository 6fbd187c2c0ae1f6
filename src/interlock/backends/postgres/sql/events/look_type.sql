select e.id, e.source, e.delivery, e.type, e.actor, null, e.received_at, e.replay_of, e.replayed_by, e.jobs,
       extract(epoch from interlock.now_or($8))::float8
from interlock.event e
where e.namespace = $1 and e.type = $3
  and ($2 = '' or e.source = $2) and ($3 = '' or e.type = $3) and ($4 = '' or e.actor = $4)
  and ($5 = '' or e.delivery = $5)
  and (e.received_at, e.id) < (
      coalesce((select x.received_at from interlock.event x where x.id = $6 and x.namespace = $1), 9223372036854775807),
      coalesce($6, 9223372036854775807))
  -- Of an event that is gone all that is known is its number.
  and (e.id < $6 or $6 is null or exists (select from interlock.event x where x.id = $6 and x.namespace = $1))
order by e.received_at desc, e.id desc limit $7
