insert into interlock_event (
    id, namespace, source, delivery, type, actor, received_at, kept_until, replay_of, replayed_by, jobs, payload)
values (
    :id, :namespace, :source, :delivery, :type, :actor, :now, :now + :keep, :replay_of, :by, :jobs, :payload)
