-- Paused queues: none of their jobs is fetched. Every fetch looks into this table, which is usually empty, after it has locked its
-- row of job_session for share. A pause locks all those rows, so that it returns after the fetches that had begun before it.
create table interlock.queue_pause (
    namespace    text not null,
    pool         text collate "C" primary key,
    paused_since bigint not null,
    paused_by    text not null,
    reason       text not null
);

-- How many jobs of each queue a worker runs at once; null if every queue may use all runners.
alter table interlock.job_worker add column queue_runners jsonb;
