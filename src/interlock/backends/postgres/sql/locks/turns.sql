with clock as (
    select interlock.now_or($4) as now_is
),
live as (
    select w.owner, w.session, w.key, row_number() over (partition by w.key order by w.ticket) - 1 as ahead
    from interlock.waiter w
    join interlock.session s on s.namespace = w.namespace and s.id = w.session
    cross join clock
    where w.namespace = $1 and s.expires_at > now_is and (w.gives_up_at is null or w.gives_up_at > now_is)
      and w.key in (select mine.key from interlock.waiter mine where mine.namespace = $1 and mine.session = $2)
),
mine as (
    select live.owner, live.ahead, now_is, l.owner is not null as owned, l.free_since,
           least(l.expires_at, coalesce(s.expires_at, 'epoch')) as ends_at
    from live
    join interlock.lock l on l.namespace = $1 and l.key = live.key
    left join interlock.session s on s.namespace = l.namespace and s.id = l.session
    cross join clock
    where live.session = $2
)
select owner, 0::float8 as due_in
from unnest($5::text[]) as asked (owner)
where not exists (select from interlock.waiter w where w.namespace = $1 and w.owner = asked.owner)
union all
(select owner,
       extract(epoch from case when owned and ends_at > now_is then ends_at
                               when owned then least(ends_at, now_is) + interlock.seconds(ahead * $3)
                               else least(free_since, now_is) + interlock.seconds(ahead * $3) end - now_is)::float8 as due_in
from mine
order by due_in
limit 100)
