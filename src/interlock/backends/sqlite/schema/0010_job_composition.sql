-- How jobs depend on each other and on time: keys, jobs to wait for, and expiry. Times and durations are whole microseconds.
-- Jobs that use none of it have no rows here.

-- The job that holds a key: the only one of its name in the namespace. It holds the key until it has ended, and for keep
-- after that, as long as its history is kept. check_at: when pruning looks at the key.
create table interlock_job_key (
    namespace text not null,
    name      text not null,
    key       text not null,
    id        integer not null,
    keep      integer not null,
    check_at  integer not null,
    primary key (namespace, name, key)
) without rowid;

create index interlock_job_key_by_check on interlock_job_key (namespace, check_at);
create index interlock_job_key_by_id on interlock_job_key (id);

-- What a job waits for: another job, until that one has ended. failed: that one has ended without being done, and the job is
-- parked for it.
create table interlock_job_after (
    needs     integer not null,
    id        integer not null,
    if_failed text not null,
    failed    integer not null default 0,
    primary key (needs, id)
) without rowid;

create index interlock_job_after_by_id on interlock_job_after (id);

-- A signal that jobs wait for one that may have ended. A fetch looks at it.
create table interlock_job_after_signal (
    namespace text not null,
    needs     integer not null,
    primary key (namespace, needs)
) without rowid;

-- When jobs expire that have not started. Rows of jobs that have started or ended mean nothing.
create table interlock_job_expiry (
    namespace text not null,
    at        integer not null,
    id        integer not null,
    primary key (namespace, at, id)
) without rowid;

-- Unfinished jobs with their states.
create view interlock_job_with_state as
select j.id, k.namespace, k.queue, k.name, j.kind, j.lane, j.position, j.priority, j.class, j.sort,
       case
           when c.started then 'running'
           when c.id is not null then 'fetched'
           when j.parked is not null then 'parked'
           when exists (select 1 from interlock_job_after a where a.id = j.id) then 'blocked'
           when j.unreadable then 'ready'
           when exists (select 1 from interlock_job_scheduled t where t.kind = j.kind and t.at = j.due_at and t.id = j.id)
               then 'scheduled'
           when exists (
               select 1 from interlock_job_ready r
               where r.kind = j.kind and r.class = j.class and r.sort = j.sort and r.id = j.id)
               then 'ready'
           when exists (select 1 from interlock_job_limit_wait w where w.id = j.id) then 'waiting'
           when exists (select 1 from interlock_job_hold h where h.lane = j.lane)
                and j.id = (
                    select f.id from interlock_job f where f.lane = j.lane and f.position > 0
                    order by f.position limit 1)
               then 'held'
           else 'behind'
       end as state,
       j.attempt + (c.id is not null) as attempt, j.crashes, j.enqueued_at, j.due_at, c.fetched_at,
       w.session, w.host, w.pid, w.program, coalesce(c.fence, j.fence) as fence,
       coalesce(c.cancel, j.parked, j.error, '') as error, j.uses, j.arguments, j.options, j.attempts,
       coalesce(j.cause, '') as cause
from interlock_job j
join interlock_job_kind k on k.id = j.kind
left join interlock_job_fetched c on c.id = j.id
left join interlock_job_worker w on w.id = c.worker;
