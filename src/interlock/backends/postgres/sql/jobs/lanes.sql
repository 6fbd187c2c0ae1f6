-- Lanes with jobs and lanes that are held, by name, or just the one. Each step finds the next lane, however many jobs one has.
with recursive clock as materialized (select interlock.micros(interlock.now_or($4)) as now_us),
busy (lane, n) as (
    (select j.lane, 1 from interlock.job j
     where $2::text is null and j.lane >= $1 || '/' and j.lane < $1 || '0' and j.position is not null
     order by j.lane limit 1)
    union all
    select (select j.lane from interlock.job j
            where j.lane > b.lane and j.lane < $1 || '0' and j.position is not null order by j.lane limit 1), b.n + 1
    from busy b where b.lane is not null and b.n < $3
),
known as materialized (
    select x.lane from (
        select $1 || '/' || $2::text collate "C" as lane where $2 is not null
        union
        select b.lane from busy b where b.lane is not null
        union
        (select l.lane from interlock.job_lane l
         where $2::text is null and (l.held_since is not null or l.parked_since is not null)
           and l.lane >= $1 || '/' and l.lane < $1 || '0'
         order by l.lane limit $3)
    ) x
    order by x.lane limit $3
)
select now_us, substr(known.lane, length($1) + 2), case when h.id is null then 'held' else interlock.job_state(h.job, $1) end as state, h.id,
       coalesce(h.name, ''),
       (select count(*) from (
           select from interlock.job j where j.lane = known.lane and j.position is not null limit 10000) x) as depth,
       coalesce(l.held_since, l.parked_since, h.due_at) as since, c.session, c.host, c.pid, c.program,
       coalesce(l.held_by, '') as held_by, coalesce(l.held_reason, '') as held_reason, l.held_since, l.parked_since,
       coalesce(l.parked_reason, '') as parked_reason
from clock
cross join known
left join interlock.job_lane l on l.lane = known.lane
left join lateral (
    select j as job, j.id, j.name, j.due_at from interlock.job j
    where j.lane = known.lane and j.position is not null order by j.position limit 1
) h on true
left join lateral (
    select w.session, w.host, w.pid, w.program
    from interlock.job_fetched x join interlock.job_session w on w.id = x.crew
    where x.namespace = $1 and h.id = any (x.ids) limit 1
) c on true
where h.id is not null or l.held_since is not null or l.parked_since is not null
order by known.lane
limit $3
