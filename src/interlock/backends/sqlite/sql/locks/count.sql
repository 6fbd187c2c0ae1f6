select
    (select count(*) from (
        select 1 from interlock_lock l
        join interlock_session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > :now
        where l.namespace = :namespace and l.owner is not null and l.expires_at > :now
        limit :limit)),
    (select count(*) from (
        select 1 from interlock_waiter w
        join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now
        where w.namespace = :namespace and (w.gives_up_at is null or w.gives_up_at > :now)
        limit :limit))
