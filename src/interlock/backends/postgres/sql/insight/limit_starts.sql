select s.id, coalesce(j.name, h.name, ''), s.at, s.counts_until, w.session, w.host, w.pid, w.program
from (
    select x.id, x.at, x.counts_until from interlock.job_limit_start x
    where x.namespace = $1 and x.key = $2 and x.counts_until > interlock.micros(interlock.now_or($4))
    order by x.at, x.id limit $3) s
left join interlock.job j on j.id = s.id
left join interlock.job_history h on h.id = s.id
left join lateral (
    select c.crew from interlock.job_fetched c where c.namespace = $1 and c.limited and s.id = any (c.ids) limit 1) c on true
left join interlock.job_session w on w.id = coalesce(c.crew, h.crew)
order by s.at, s.id
