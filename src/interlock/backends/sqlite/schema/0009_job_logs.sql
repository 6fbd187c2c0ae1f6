-- What jobs have reported. fence, attempt: the last fetch that reported anything; report: the number of its last report. lines:
-- the number of the last line; kept_lines, kept_bytes: how much of the log is kept. progress, message, progress_at: the last
-- progress of that fetch, null if it has reported none. Times are whole microseconds of the worker's clock.
create table interlock_job_log (
    id          integer primary key,
    namespace   text not null,
    fence       integer not null,
    attempt     integer not null,
    report      integer not null,
    lines       integer not null,
    kept_lines  integer not null,
    kept_bytes  integer not null,
    progress    real,
    message     text,
    progress_at integer
);

-- Lines of jobs. first: the number of the first one. head: the chunk is never dropped. content: see log_chunks.py.
create table interlock_job_log_chunk (
    id      integer not null,
    first   integer not null,
    lines   integer not null,
    bytes   integer not null,
    head    integer not null,
    attempt integer not null,
    fence   integer not null,
    content text not null,
    primary key (id, first)
) without rowid;
