-- The newest jobs as asked for. Ids are drawn in blocks, so that the newest by id are only about the newest by time: more
-- of them are looked at than are wanted.
with clock as materialized (select interlock.micros(interlock.now_or($2)) as now_us),
asked as materialized (
    select $3::text[] as states, $3 = '{}' or $3 && array['ready', 'behind'] as many,
           $3 = '{}' or $3 && array['ready', 'behind', 'held', 'scheduled', 'waiting', 'running', 'parked'] as unfinished,
           $3 = '{}' or $3 && array['done', 'failed', 'discarded', 'cancelled', 'superseded', 'quarantined'] as ended
),
few as materialized (
    select unnest(c.ids) as id from interlock.job_fetched c cross join asked
    where c.namespace = $1 and not many and 'running' = any (states)
    union all
    select l.id from interlock.job_scheduled l cross join asked
    where not many and 'scheduled' = any (states) and l.pool >= $1 || '/' and l.pool < $1 || '0'
    union all
    select w.id from interlock.job_limit_wait w cross join asked
    where not many and 'waiting' = any (states) and w.namespace = $1
    union all
    select j.id from interlock.job j cross join asked
    where not many and 'parked' = any (states) and j.parked is not null
    union all
    select h.id from interlock.job_lane l cross join asked
    cross join lateral (
        select j.id from interlock.job j where j.lane = l.lane and j.position is not null order by j.position limit 1) h
    where not many and 'held' = any (states) and (l.held_since is not null or l.parked_since is not null)
      and l.lane >= $1 || '/' and l.lane < $1 || '0'
)
select now_us, x.*
from clock
cross join (
    (select v.id, v.name, v.queue, v.lane, v.priority, v.state, v.attempt, v.crashes, v.enqueued_at, v.due_at, v.fetched_at,
            v.started_at, v.finished_at, v.session, v.host, v.pid, v.program, v.fence, v.error, v.superseded_by, v.use_key,
            v.use_most, v.use_per, v.uses, '' as arguments, v.options, null as result, v.kept_until, null::jsonb as attempts
     from asked cross join clock
     cross join lateral interlock.job_open_views($1) v
     where unfinished and (states = '{}' or v.state = any (states)) and (many or v.id = any (array(select id from few)))
       and ($4 = '' or v.name = $4) and ($5 = '' or v.queue = $5) and ($6 = '' or v.lane = $6)
     order by v.id desc limit $7::integer * 2 + 100)
    union all
    (select v.id, v.name, v.queue, v.lane, v.priority, v.state, v.attempt, v.crashes, v.enqueued_at, v.due_at, v.fetched_at,
            v.started_at, v.finished_at, v.session, v.host, v.pid, v.program, v.fence, v.error, v.superseded_by, v.use_key,
            v.use_most, v.use_per, v.uses, '', v.options, null, v.kept_until, null::jsonb
     from asked cross join clock
     cross join lateral interlock.job_ended_views($1, now_us) v
     where ended and (states = '{}' or v.state = any (states))
       and ($4 = '' or v.name = $4) and ($5 = '' or v.queue = $5) and ($6 = '' or v.lane = $6)
     order by v.id desc limit $7::integer * 2 + 100)
) x
order by x.enqueued_at desc, x.id desc
limit $7
