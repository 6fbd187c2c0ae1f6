-- Claimed jobs by kind, and how many of them are not the first of their lane.
select kind, count(*), sum(lane is not null), sum(orphan), sum(follows)
from (
    select j.kind, c.lane, s.id is null as orphan,
           c.lane is not null and exists (
               select 1 from interlock_job f where f.lane = c.lane and f.position > 0 and f.position < j.position) as follows
    from interlock_job_claimed c
    cross join interlock_job j on j.id = c.id
    left join interlock_job_worker w on w.id = c.worker
    left join interlock_session s on s.namespace = w.namespace and s.id = w.session and s.expires_at > :now_s
    limit :limit)
group by kind
