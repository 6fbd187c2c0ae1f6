-- How a key stands for the reservation :ticket with its :turn, which is not counted itself. A session that is gone has ended at 0.
with used as (
    select r.ticket, r.started, u.most, u.per, coalesce(s.expires_at, 0) as expires_at,
           coalesce(s.expires_at, 0) > :now and (r.started or :now_us <= max(r.last_asked, r.at) + :stale) as live,
           r.started or (r.waits = 1 and r.place = u.key and r.turn < :turn) as before_us
    from interlock_limit_use u
    join interlock_limit_reservation r on r.ticket = u.ticket
    left join interlock_session s on s.namespace = u.namespace and s.id = r.session
    where u.namespace = :namespace and u.key = :key and u.ticket <> :ticket
)
select coalesce(sum(live), 0),
       coalesce(sum(expires_at <= :now), 0),
       coalesce(sum(live and started), 0),
       coalesce(sum(live and before_us and not started), 0),
       min(case when live and before_us then expires_at end),
       min(case when live then most end), max(case when live then most end),
       min(case when live then per end), max(case when live then per end),
       (select free_since from interlock_limit_key k where k.namespace = :namespace and k.key = :key)
from used
