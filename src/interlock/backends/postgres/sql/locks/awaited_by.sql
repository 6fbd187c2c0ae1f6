select distinct w.key
from interlock.waiter w
cross join (select interlock.now_or($4) as now_is) clock
join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > now_is
where w.session = $2 and w.namespace = $1 and (w.gives_up_at is null or w.gives_up_at > now_is)
order by w.key
limit $3
