select extract(epoch from now_is)::float8 as seen_at, l.key,
       l.owner, l.caller, l.session, s.host, s.pid, s.program, l.fence,
       extract(epoch from l.granted_at)::float8 as granted_at,
       case when l.owner is not null
            then extract(epoch from least(l.expires_at, coalesce(s.expires_at, to_timestamp(0))))::float8 end as ends_at,
       extract(epoch from nullif(l.free_since, 'epoch'))::float8 as free_since,
       coalesce((
           select jsonb_agg(jsonb_build_array(
               w.owner, w.caller, w.session, coalesce(ws.host, ''), coalesce(ws.pid, 0), coalesce(ws.program, ''),
               extract(epoch from w.asked_at), extract(epoch from w.gives_up_at),
               coalesce(ws.expires_at > now_is, false) and (w.gives_up_at is null or w.gives_up_at > now_is)
               ) order by w.ticket)
           from (
               select x.* from interlock.waiter x
               where x.namespace = l.namespace and x.key = l.key order by x.ticket limit $4::integer) w
           left join interlock.session ws on ws.namespace = w.namespace and ws.id = w.session), '[]') as waiters,
       case when $4::integer is null then 0 else greatest(0, (
           select count(*) from (
               select from interlock.waiter x where x.namespace = l.namespace and x.key = l.key limit $4::integer + 10000) x)
           - $4::integer) end as more
from interlock.lock l
cross join (select interlock.now_or($5) as now_is) clock
left join interlock.session s on s.namespace = l.namespace and s.id = l.session
where l.namespace = $1 and l.key > $2
  and (l.owner is not null and l.expires_at > now_is and s.expires_at > now_is
       or exists (
           select from interlock.waiter w
           join interlock.session ws on ws.namespace = w.namespace and ws.id = w.session and ws.expires_at > now_is
           where w.namespace = l.namespace and w.key = l.key and (w.gives_up_at is null or w.gives_up_at > now_is)))
order by l.key
limit $3
