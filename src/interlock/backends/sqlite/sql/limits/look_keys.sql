-- From one key to the next, so that keys beyond the limit are not read.
with recursive next (key) as (
    select min(key) from (
        select min(u.key) as key from interlock_limit_use u where u.namespace = :namespace and u.key > :after
        union all
        select min(t.key) from interlock_limit_start t where t.namespace = :namespace and t.key > :after)
    union all
    select (
        select min(key) from (
            select min(u.key) as key from interlock_limit_use u where u.namespace = :namespace and u.key > next.key
            union all
            select min(t.key) from interlock_limit_start t where t.namespace = :namespace and t.key > next.key))
    from next where next.key is not null
)
select next.key
from next
where next.key is not null
  and (exists (
           select 1 from interlock_limit_use u
           join interlock_limit_reservation r on r.ticket = u.ticket
           join interlock_session s on s.namespace = u.namespace and s.id = r.session and s.expires_at > :now
           where u.namespace = :namespace and u.key = next.key
             and (not r.started and :now_us <= max(r.last_asked, r.at) + :stale or r.started and u.per = 0))
       or exists (
           select 1 from interlock_limit_start t
           where t.namespace = :namespace and t.key = next.key and t.at + t.per > :now_us))
limit :limit
