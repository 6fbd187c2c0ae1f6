with clock as materialized (
    select now_is, interlock.micros(now_is) as now_us from (select interlock.now_or($2) as now_is) given
),
running as materialized (
    select unnest(c.ids) as id from interlock.job_fetched c where c.namespace = $1
),
standing as (
    select j.pool, j.due_at,
           case when j.parked is not null then 'parked'
                when r.id is not null then 'running'
                when l.id is not null then 'scheduled'
                when w.id is not null then 'waiting'
                when j.lane is null then 'ready'
                when j.position is distinct from min(j.position) over (partition by j.lane) then 'behind'
                when k.held_since is not null or k.parked_since is not null then 'held'
                else 'ready' end as state
    from clock
    cross join interlock.job j
    left join running r on r.id = j.id
    left join interlock.job_scheduled l on l.pool = j.pool and l.at = j.due_at and l.id = j.id
    left join interlock.job_limit_wait w on w.id = j.id and not w.woken
    left join interlock.job_lane k on k.lane = j.lane
    where j.pool >= $1 || '/' and j.pool < $1 || '0'
),
filled as (
    select s.pool, count(*) filter (where s.state = 'ready') as ready, count(*) filter (where s.state = 'behind') as behind,
           count(*) filter (where s.state = 'scheduled') as scheduled, count(*) filter (where s.state = 'waiting') as waiting,
           count(*) filter (where s.state = 'running') as running, count(*) filter (where s.state = 'held') as held,
           count(*) filter (where s.state = 'parked') as parked,
           min(s.due_at) filter (where s.state = 'ready') as oldest_ready_at,
           min(s.due_at) filter (where s.state = 'scheduled') as next_due_at
    from standing s group by s.pool
),
worked as (
    select $1 || '/' || q.queue as pool, count(*) as workers, sum(w.runners) as runners
    from clock
    join interlock.job_worker w on w.namespace = $1
    join interlock.session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > now_is
    cross join lateral unnest(w.queues) as q (queue)
    group by q.queue
)
select substr(coalesce(f.pool, w.pool), length($1) + 2), coalesce(f.ready, 0), coalesce(f.behind, 0), coalesce(f.scheduled, 0),
       coalesce(f.waiting, 0), coalesce(f.running, 0), coalesce(f.held, 0), coalesce(f.parked, 0), f.oldest_ready_at,
       f.next_due_at, coalesce(w.workers, 0), coalesce(w.runners, 0)
from filled f
full join worked w on w.pool = f.pool collate "C"
order by 1
