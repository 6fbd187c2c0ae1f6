-- In how many seconds each waiting reservation of a session should ask again; at once if it is one of $6 and not known.
with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($5) as now_is) given
),
mine as materialized (
    select u.owner, u.key, u.at, u.started, u.waits, u.place
    from interlock.limit_use u
    cross join clock
    join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
    where u.namespace = $1 and u.session = $2 and (u.started or now_us <= greatest(u.last_asked, u.at) + $4::bigint)
),
live as materialized (
    select u.ticket, u.owner, u.session, u.key, u.started, u.waits = 1 and u.place = u.key as in_line, u.most, u.per,
           s.expires_at
    from interlock.limit_use u
    cross join clock
    join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
    where u.namespace = $1 and u.key in (select mine.place from mine where not mine.started and mine.waits = 1)
      and (u.started or now_us <= greatest(u.last_asked, u.at) + $4::bigint)
),
places as (
    select l.owner, l.session, l.key, l.in_line,
           coalesce(min(l.most) filter (where l.per = 0) over by_key, 1000000)
               - count(*) filter (where l.started) over by_key as free,
           count(*) filter (where l.in_line) over before_it as ahead,
           least(min(l.expires_at) filter (where l.started) over by_key,
                 min(l.expires_at) filter (where l.in_line) over before_it) as ends_at
    from live l
    window by_key as (partition by l.key),
           before_it as (partition by l.key order by l.ticket rows between unbounded preceding and 1 preceding)
),
due as (
    select p.owner,
           case when p.ahead < p.free then 0
                else least(extract(epoch from p.ends_at - now_is)::float8,
                           case when p.free > 0
                                then ((select k.free_since from interlock.limit_key k
                                       where k.namespace = $1 and k.key = p.key)
                                      + (p.ahead - p.free + 1) * $3::bigint - now_us) / 1e6::float8
                           end)
           end as due_in
    from places p
    cross join clock
    where p.session = $2 and p.in_line
    union all
    select mine.owner, (min(mine.at) - min(now_us)) / 1e6::float8
    from mine cross join clock
    where not mine.started and mine.waits <> 1
    group by mine.owner
)
select asked.owner, 0::float8 as due_in
from unnest($6::text[]) as asked (owner)
where asked.owner not in (select mine.owner from mine)
union all
(select owner, due_in from due order by greatest(due_in, 0), random() limit 1000)
