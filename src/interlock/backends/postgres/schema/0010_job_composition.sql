-- How jobs depend on each other and on time: keys, jobs to wait for, and expiry. Times and durations are whole microseconds.
-- Jobs that use none of it have no rows here. One transaction of a namespace at a time changes job_after and job_expiry,
-- under an advisory lock that it takes before all rows (job_composition_lock); an enqueue only adds rows of its own jobs.

-- The job that holds a key: the only one of its name in the namespace. It holds the key until it has ended, and for keep
-- after that, as long as its history is kept. check_at: when pruning looks at the key.
create table interlock.job_key (
    id        bigint not null,
    keep      bigint not null,
    check_at  bigint not null,
    namespace text not null,
    name      text collate "C" not null,
    key       text collate "C" not null,
    primary key (namespace, name, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index job_key_by_check on interlock.job_key (namespace, check_at);
create index job_key_by_id on interlock.job_key (id);

-- What a job waits for: another job, until that one has ended. if_failed: see job_codes.py. failed: that one has ended
-- without being done, and the job is parked for it.
create table interlock.job_after (
    needs     bigint not null,
    id        bigint not null,
    if_failed smallint not null,
    failed    boolean not null default false,
    primary key (needs, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_after_by_id on interlock.job_after (id);

-- A signal that jobs wait for one that may have ended. Both an enqueue and the end of a job only insert it; fetches look.
create table interlock.job_after_signal (
    number    bigint generated always as identity,
    needs     bigint not null,
    namespace text not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_after_signal_by_number on interlock.job_after_signal (namespace, number);

-- When jobs expire that have not started. Rows of jobs that have started or ended mean nothing.
create table interlock.job_expiry (
    at        bigint not null,
    id        bigint not null,
    namespace text not null,
    primary key (namespace, at, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
