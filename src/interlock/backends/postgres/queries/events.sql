-- name: accept
-- Accept events and their jobs.
select interlock.event_accept($1, row($2, $3, $4, $5, $6, $8, $9, $10, $11)::interlock.new_events, $7, row(
    $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30,
    $31, $32, $33, $34, $35, $36, $37)::interlock.new_jobs, $38)

-- name: get_many
-- Read events by ID.
select e.id, e.source, e.delivery, e.type, e.actor, e.payload, e.received_at, e.replay_of, e.replayed_by, e.jobs,
       extract(epoch from interlock.now_or($3))::float8
from interlock.event e
where e.id = any ($2) and e.namespace = $1

-- name: list_any
-- List events, newest first.
select e.id, e.source, e.delivery, e.type, e.actor, null, e.received_at, e.replay_of, e.replayed_by, e.jobs,
       extract(epoch from interlock.now_or($8))::float8
from interlock.event e
where e.namespace = $1
  and ($2 = '' or e.source = $2) and ($3 = '' or e.type = $3) and ($4 = '' or e.actor = $4)
  and ($5 = '' or e.delivery = $5)
  and (e.received_at, e.id) < (
      coalesce((select x.received_at from interlock.event x where x.id = $6 and x.namespace = $1), 9223372036854775807),
      coalesce($6, 9223372036854775807))
  -- Of an event that is gone all that is known is its number.
  and (e.id < $6 or $6 is null or exists (select from interlock.event x where x.id = $6 and x.namespace = $1))
order by e.received_at desc, e.id desc limit $7

-- name: list_source
-- List the events of a source, newest first.
select e.id, e.source, e.delivery, e.type, e.actor, null, e.received_at, e.replay_of, e.replayed_by, e.jobs,
       extract(epoch from interlock.now_or($8))::float8
from interlock.event e
where e.namespace = $1 and e.source = $2
  and ($2 = '' or e.source = $2) and ($3 = '' or e.type = $3) and ($4 = '' or e.actor = $4)
  and ($5 = '' or e.delivery = $5)
  and (e.received_at, e.id) < (
      coalesce((select x.received_at from interlock.event x where x.id = $6 and x.namespace = $1), 9223372036854775807),
      coalesce($6, 9223372036854775807))
  -- Of an event that is gone all that is known is its number.
  and (e.id < $6 or $6 is null or exists (select from interlock.event x where x.id = $6 and x.namespace = $1))
order by e.received_at desc, e.id desc limit $7

-- name: list_type
-- List the events of a type, newest first.
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

-- name: list_actor
-- List the events of an actor, newest first.
select e.id, e.source, e.delivery, e.type, e.actor, null, e.received_at, e.replay_of, e.replayed_by, e.jobs,
       extract(epoch from interlock.now_or($8))::float8
from interlock.event e
where e.namespace = $1 and e.actor = $4
  and ($2 = '' or e.source = $2) and ($3 = '' or e.type = $3) and ($4 = '' or e.actor = $4)
  and ($5 = '' or e.delivery = $5)
  and (e.received_at, e.id) < (
      coalesce((select x.received_at from interlock.event x where x.id = $6 and x.namespace = $1), 9223372036854775807),
      coalesce($6, 9223372036854775807))
  -- Of an event that is gone all that is known is its number.
  and (e.id < $6 or $6 is null or exists (select from interlock.event x where x.id = $6 and x.namespace = $1))
order by e.received_at desc, e.id desc limit $7

-- name: list_delivery
-- List the events of a delivery, newest first.
select e.id, e.source, e.delivery, e.type, e.actor, null, e.received_at, e.replay_of, e.replayed_by, e.jobs,
       extract(epoch from interlock.now_or($8))::float8
from interlock.event e
where e.namespace = $1 and e.delivery = $5
  and ($2 = '' or e.source = $2) and ($3 = '' or e.type = $3) and ($4 = '' or e.actor = $4)
  and ($5 = '' or e.delivery = $5)
  and (e.received_at, e.id) < (
      coalesce((select x.received_at from interlock.event x where x.id = $6 and x.namespace = $1), 9223372036854775807),
      coalesce($6, 9223372036854775807))
  -- Of an event that is gone all that is known is its number.
  and (e.id < $6 or $6 is null or exists (select from interlock.event x where x.id = $6 and x.namespace = $1))
order by e.received_at desc, e.id desc limit $7

-- name: prune
-- Remove events that were kept long enough.
select interlock.event_prune($1, $2, $3)
