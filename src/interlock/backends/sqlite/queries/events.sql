-- name: add_event
-- Store an event with the jobs it made.
insert into interlock_event (
    id, namespace, source, delivery, type, actor, received_at, kept_until, replay_of, replayed_by, jobs, payload)
values (
    :id, :namespace, :source, :delivery, :type, :actor, :now, :now + :keep, :replay_of, :by, :jobs, :payload)

-- name: events_by_id
-- Read events by ID, payload included.
select e.id, e.source, e.delivery, e.type, e.actor, e.payload, e.received_at, e.replay_of, e.replayed_by, e.jobs
from json_each(:ids) x
cross join interlock_event e on e.id = x.value
where e.namespace = :namespace

-- name: known_deliveries
-- Select which deliveries are already stored. A cross join runs in the order it is written: each delivery is looked up
-- in the index.
select e.delivery, e.source, e.id
from json_each(:names) n
cross join interlock_event e
where e.namespace = :namespace
    and e.delivery = json_extract(n.value, '$[0]')
    and e.source = json_extract(n.value, '$[1]')

-- name: expired_events
-- Select events whose retention has ended, and whether one of their jobs is unfinished.
select e.id, exists (select 1 from json_each(e.jobs) x cross join interlock_job j on j.id = x.value)
from interlock_event e
where e.namespace = :namespace and e.kept_until <= :now
order by e.kept_until limit :limit

-- name: extend_retention
-- Keep events until a later time.
update interlock_event set kept_until = :until where id in (select value from json_each(:ids))

-- name: delete_events
-- Delete events.
delete from interlock_event where id in (select value from json_each(:ids))

-- name: received_at
-- Read when an event was received: where a page starts.
select received_at from interlock_event where id = :id and namespace = :namespace

-- name: list_all
-- List events, newest first, by the index on time.
select id, source, delivery, type, actor, null, received_at, replay_of, replayed_by, jobs
from interlock_event indexed by interlock_event_by_time
where namespace = :namespace and (received_at, id) < (:at, :before)
  and (id < :before or :known)
  and (:source = '' or source = :source) and (:type = '' or type = :type) and (:actor = '' or actor = :actor)
order by received_at desc, id desc limit :limit

-- name: list_by_source
-- List a source's events, newest first.
select id, source, delivery, type, actor, null, received_at, replay_of, replayed_by, jobs
from interlock_event indexed by interlock_event_by_source
where namespace = :namespace and source = :source and (received_at, id) < (:at, :before)
  and (id < :before or :known)
  and (:source = '' or source = :source) and (:type = '' or type = :type) and (:actor = '' or actor = :actor)
order by received_at desc, id desc limit :limit

-- name: list_by_type
-- List events of a type, newest first.
select id, source, delivery, type, actor, null, received_at, replay_of, replayed_by, jobs
from interlock_event indexed by interlock_event_by_type
where namespace = :namespace and type = :type and (received_at, id) < (:at, :before)
  and (id < :before or :known)
  and (:source = '' or source = :source) and (:type = '' or type = :type) and (:actor = '' or actor = :actor)
order by received_at desc, id desc limit :limit

-- name: list_by_actor
-- List an actor's events, newest first.
select id, source, delivery, type, actor, null, received_at, replay_of, replayed_by, jobs
from interlock_event indexed by interlock_event_by_actor
where namespace = :namespace and actor = :actor and (received_at, id) < (:at, :before)
  and (id < :before or :known)
  and (:source = '' or source = :source) and (:type = '' or type = :type) and (:actor = '' or actor = :actor)
order by received_at desc, id desc limit :limit

-- name: list_by_delivery
-- List the events of one delivery ID, newest first. There are at most as many as sources.
select id, source, delivery, type, actor, null, received_at, replay_of, replayed_by, jobs
from interlock_event
where namespace = :namespace and delivery = :delivery and (received_at, id) < (:at, :before)
  and (id < :before or :known)
  and (:source = '' or source = :source) and (:type = '' or type = :type) and (:actor = '' or actor = :actor)
order by received_at desc, id desc limit :limit
