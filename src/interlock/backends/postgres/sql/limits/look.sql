with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($5) as now_is) given
),
keys as materialized (
    select k.key
    from interlock.limit_key k
    cross join clock
    where k.namespace = $1 and ($2::text is null and k.key > $6::text or k.key = $2)
      and (exists (
               select from interlock.limit_use u
               join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
               where u.namespace = $1 and u.key = k.key
                 and (u.started and u.per = 0
                      or not u.started and now_us <= greatest(u.last_asked, u.at) + $4::bigint))
           or exists (
               select from interlock.limit_start t
               where t.namespace = $1 and t.key = k.key and t.at + t.per > now_us))
    order by k.key
    limit $3
),
uses as materialized (
    select u.key, u.ticket, u.owner, u.caller, u.session, s.host, s.pid, s.program, u.most, u.per, u.asked_at, u.at,
           u.started, u.waits, u.place
    from keys
    cross join clock
    join interlock.limit_use u on u.namespace = $1 and u.key = keys.key
    join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
    where u.started or now_us <= greatest(u.last_asked, u.at) + $4::bigint
),
starts as materialized (
    select t.* from keys
    cross join clock
    join interlock.limit_start t on t.namespace = $1 and t.key = keys.key
    where t.at + t.per > now_us
)
select keys.key, now_us,
       (select k.free_since from interlock.limit_key k where k.namespace = $1 and k.key = keys.key) as free_since,
       (select coalesce(jsonb_agg(jsonb_build_array(
           u.owner, u.caller, u.session, u.host, u.pid, u.program, u.most, u.per, u.asked_at, u.at, u.started, u.waits,
           u.place) order by u.ticket), '[]')
        from uses u where u.key = keys.key) as uses,
       (select coalesce(jsonb_agg(jsonb_build_array(
           t.owner, t.caller, t.session, t.host, t.pid, t.program, t.most, t.per, t.asked_at, t.at)
           order by t.at, t.ticket), '[]')
        from starts t where t.key = keys.key) as starts,
       (select coalesce(jsonb_agg(jsonb_build_array(
           interlock.micros(coalesce(s.expires_at, 'epoch')), u.started, case when u.per = 0 then u.most end)
           order by s.expires_at nulls first), '[]')
        from interlock.limit_use u
        left join interlock.session s on s.namespace = u.namespace and s.id = u.session
        where u.namespace = $1 and u.key = keys.key and (s.expires_at is null or s.expires_at <= now_is)) as dead
from keys
cross join clock
order by keys.key collate "C"
