-- The claims of workers whose sessions have ended. ran: whether it may have been running, being the first of its run; those
-- are taken last, suspects before others. all_ran, suspects: how many such its worker has, and how many of them are suspects.
with recursive busy (worker) as (
    select min(worker) from interlock_job_claimed
    union all
    select (select min(c.worker) from interlock_job_claimed c where c.worker > busy.worker)
    from busy
    where busy.worker is not null
)
select worker, session, host, pid, program, leaving, crashed, ran, sum(ran) over (partition by worker) as all_ran,
       sum(ran and half is not null) over (partition by worker) as suspects,
       id, fence, claimed_at, lane, uses, cancel, told
from (
    select w.id as worker, w.session, w.host, w.pid, w.program, w.leaving, w.crashed, j.half,
           c.lane is null or row_number() over (partition by w.id, c.lane order by j.position, c.id) = 1 as ran,
           c.id, c.fence, c.claimed_at, c.lane, c.uses, c.cancel, c.told
    from busy
    cross join interlock_job_worker w on w.id = busy.worker and w.namespace = :namespace
    left join interlock_session s on s.namespace = w.namespace and s.id = w.session
    cross join interlock_job_claimed c on c.worker = w.id
    cross join interlock_job j on j.id = c.id
    where coalesce(s.expires_at, 0) <= :now_s
)
order by ran, worker, half is null, id
limit :limit
