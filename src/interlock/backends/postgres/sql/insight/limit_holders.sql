select j.id, j.name, c.fetched_at, null::bigint, w.session, w.host, w.pid, w.program
from interlock.job_fetched c
cross join lateral unnest(c.ids) as o (id)
join interlock.job j on j.id = o.id
join interlock.job_session w on w.id = c.crew
cross join lateral interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u
where c.namespace = $1 and c.limited and u.key = $2 and u.per = 0
order by c.fetched_at, j.id
limit $3
