select key from (
    select u.key
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
    where u.namespace = :namespace and u.key > :after
      and (not r.started and :now_us <= max(r.last_asked, r.at) + :stale or r.started and u.per = 0)
    union
    select key from interlock_limit_start
    where namespace = :namespace and key > :after and at + per > :now_us
)
order by key
limit :limit
