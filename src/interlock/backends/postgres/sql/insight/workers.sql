select w.session, s.host, s.pid, s.program, w.queues, w.names, w.runners,
       (select coalesce(sum(cardinality(c.ids)), 0) from interlock.job_fetched c
        where c.session = w.session and c.namespace = $1),
       extract(epoch from s.begun_at)::float8, extract(epoch from s.expires_at)::float8,
       extract(epoch from s.blocked_since)::float8, s.blocked_by, w.reads::text
from interlock.job_worker w
join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > interlock.now_or($4)
where w.namespace = $1 and ($2::text is null or w.session = $2) and cardinality(w.queues) > 0
order by s.begun_at, w.session
limit $3
