with live as (
    select w.owner, w.session, w.key, row_number() over (partition by w.key order by w.ticket) - 1 as ahead
    from interlock_waiter w
    join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now
    where w.namespace = :namespace
      and w.key in (select key from interlock_waiter where namespace = :namespace and session = :session)
      and (w.gives_up_at is null or w.gives_up_at > :now)
),
mine as (
    select live.owner, live.ahead,
           case when l.owner is null then l.free_since else min(l.expires_at, coalesce(s.expires_at, 0)) end as free_at,
           l.owner is not null and min(l.expires_at, coalesce(s.expires_at, 0)) > :now as held
    from live
    join interlock_lock l on l.namespace = :namespace and l.key = live.key
    left join interlock_session s on s.namespace = l.namespace and s.id = l.session
    where live.session = :session
)
select owner, case when held then free_at - :now else min(free_at, :now) + ahead * :claim - :now end as due_in
from mine
order by due_in
limit 100
