-- What jobs have reported. fence, attempt: the last fetch that reported anything; report: the number of its last report.
-- lines: the number of the last line; kept_lines, kept_bytes: how much of the log is kept. progress, message, progress_at:
-- the last progress of that fetch, null if it has reported none. checked_at: when the log was begun, or when pruning last
-- found its job; only this one is a time of the store's clock. Times are whole microseconds.
create table interlock.job_log (
    id          bigint primary key,
    fence       bigint not null,
    report      bigint not null,
    lines       bigint not null,
    checked_at  bigint not null,
    progress_at bigint,
    progress    double precision,
    attempt     integer not null,
    kept_lines  integer not null,
    kept_bytes  integer not null,
    namespace   text not null,
    message     text
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index job_log_by_check on interlock.job_log (namespace, checked_at);

-- Lines of jobs. first: the number of the first one. head: the chunk is never dropped. content: see log_chunks.py.
create table interlock.job_log_chunk (
    id      bigint not null,
    first   bigint not null,
    fence   bigint not null,
    attempt integer not null,
    lines   integer not null,
    bytes   integer not null,
    head    boolean not null,
    content text not null,
    primary key (id, first)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Reports to append, as parallel arrays with one element per job, in the order of their IDs. numbers: those of the
-- reports; fractions, messages, times: their progress, null if it is unchanged.
create type interlock.log_reports as (
    ids       bigint[],
    fences    bigint[],
    attempts  integer[],
    numbers   bigint[],
    fractions double precision[],
    messages  text[],
    times     bigint[]
);

-- Their chunks, as parallel arrays in order. reports: the number of the chunk's report; skipped: how many lines the worker
-- dropped before it.
create type interlock.log_chunks as (
    reports  integer[],
    skipped  bigint[],
    lines    integer[],
    bytes    integer[],
    contents text[]
);
