with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($5) as now_is) given
),
uses as materialized (
    select u.key, u.ticket, u.owner, u.party, u.session, s.host, s.pid, s.program, u.most, u.per, u.asked_at, u.at,
           u.started, u.waits, u.place
    from interlock.limit_use u
    cross join clock
    join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
    where u.namespace = $1 and ($2::text is null and u.key > $6::text or u.key = $2)
      and (u.started or now_us <= greatest(u.last_asked, u.at) + $4::bigint)
),
starts as materialized (
    select t.* from interlock.limit_start t
    cross join clock
    where t.namespace = $1 and ($2::text is null and t.key > $6::text or t.key = $2) and t.at + t.per > now_us
),
keys as (
    select key from (
        select uses.key from uses where not uses.started or uses.per = 0
        union
        select starts.key from starts
    ) either
    order by key collate "C"
    limit $3
)
select keys.key, now_us,
       (select k.free_since from interlock.limit_key k where k.namespace = $1 and k.key = keys.key) as free_since,
       (select coalesce(jsonb_agg(jsonb_build_array(
           u.owner, u.party, u.session, u.host, u.pid, u.program, u.most, u.per, u.asked_at, u.at, u.started, u.waits,
           u.place) order by u.ticket), '[]')
        from uses u where u.key = keys.key) as uses,
       (select coalesce(jsonb_agg(jsonb_build_array(
           t.owner, t.party, t.session, t.host, t.pid, t.program, t.most, t.per, t.asked_at, t.at)
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
