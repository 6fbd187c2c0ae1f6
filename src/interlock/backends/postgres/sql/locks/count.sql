with clock as materialized (select interlock.now_or($3) as now_is),
live as materialized (
    select s.id from interlock.session s cross join clock where s.namespace = $1 and s.expires_at > now_is
)
select (select count(*) from (
           select from interlock.lock l join live on live.id = l.session
           where l.namespace = $1 and l.owner is not null and l.expires_at > now_is limit $2::integer) x),
       (select count(*) from (
           select from interlock.waiter w join live on live.id = w.session
           where w.namespace = $1 and (w.gives_up_at is null or w.gives_up_at > now_is) limit $2::integer) x),
       extract(epoch from now_is)::float8
from clock
