-- Paused queues: none of their jobs is fetched.
create table interlock_queue_pause (
    namespace    text not null,
    queue        text not null,
    paused_by    text not null,
    reason       text not null,
    paused_since integer not null,
    primary key (namespace, queue)
) without rowid;

-- How many jobs of each queue a worker runs at once, as JSON; null if every queue may use all runners.
alter table interlock_job_worker add column queue_runners text;
