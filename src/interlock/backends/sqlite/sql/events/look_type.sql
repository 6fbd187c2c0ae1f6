select id, source, delivery, type, actor, null, received_at, replay_of, replayed_by, jobs
from interlock_event indexed by interlock_event_by_type
where namespace = :namespace and type = :type and (received_at, id) < (:at, :before)
  and (id < :before or :known)
  and (:source = '' or source = :source) and (:type = '' or type = :type) and (:actor = '' or actor = :actor)
order by received_at desc, id desc limit :limit
