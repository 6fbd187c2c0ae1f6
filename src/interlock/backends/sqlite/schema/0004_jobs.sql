-- Times and durations of jobs are whole microseconds. A lane is stored as namespace/lane, so that one column is its key.

create table interlock_job_number (
    what text primary key,
    last integer not null
) without rowid;

insert into interlock_job_number (what, last) values ('id', 0), ('position', 0), ('group', 0);

-- A number for each queue and job name. It leads the keys of the hot tables and keeps their rows small.
create table interlock_job_kind (
    id        integer primary key,
    namespace text not null,
    queue     text not null,
    name      text not null,
    unique (namespace, queue, name)
);

-- Workers, as long as the history may refer to them. refused_fetches: fetches up to this number are refused. leaving: its process
-- is shutting down, so that a crash from then on counts against no job. handler_versions: by job name, the fingerprint of the
-- handler's parameters and the program's version. crashed: some of its jobs have become suspects.
create table interlock_job_worker (
    id        integer primary key,
    namespace text not null,
    session   text not null,
    host      text not null,
    pid       integer not null,
    program   text not null,
    queues    text not null default '[]',
    names     text not null default '[]',
    runners   integer not null default 0,
    ended_at  integer,
    refused_fetches    integer not null default 0,
    handler_versions     text not null default '{}',
    leaving   integer not null default 0,
    crashed   integer not null default 0,
    unique (namespace, session)
);

-- Every unfinished job. position: its position in its lane, null while it has none. limits: 0 for none, 1 for slots only, 2 with
-- a rate or cooldown. crashes: how many workers died while it was their only suspect. half: the half of a group of suspects it
-- belongs to, null if it is not a suspect; the halves of group n are 2n and 2n + 1. class: what a fetch has to check (FetchClass
-- in job_rows.py): its limits, or 3 for a suspect. sort: due_at minus 600 s per point of priority. The state of a job follows from
-- the other tables, except for two: parked, and unreadable, which sets it aside until a worker of a version that is not in
-- unreadable_by, JSON [[fingerprint, version]], fetches it. expires_at: it is not started for the first time from then on;
-- null once it has started.
create table interlock_job (
    id          integer primary key,
    kind        integer not null,
    lane        text,
    position    integer,
    priority    integer not null,
    enqueued_at integer not null,
    due_at      integer not null,
    attempt     integer not null default 0,
    crashes     integer not null default 0,
    half        integer,
    fence       integer not null default 0,
    on_failure     text not null,
    coalesces  integer not null,
    keep_result integer not null,
    limits      integer not null,
    uses        text,
    parked      text,
    unreadable     integer not null default 0,
    unreadable_by  text,
    expires_at  integer,
    error       text,
    attempts    text,
    options     text not null,
    arguments   text not null,
    hooks       text,
    cause       text,
    class        integer generated always as (case when half is not null then 3 else limits end) virtual,
    sort        integer generated always as (due_at - priority * 600000000) virtual
);

create index interlock_job_by_lane on interlock_job (lane, position, kind) where lane is not null;
create index interlock_job_by_half on interlock_job (half) where half is not null;
create index interlock_job_by_parked on interlock_job (id) where parked is not null;
create index interlock_job_by_unreadable on interlock_job (kind, unreadable_by, id) where unreadable;

-- Jobs that were enqueued a second time because the first attempt was not acknowledged; the first may still arrive.
create table interlock_job_resubmitted (
    id integer primary key,
    at integer not null
);

create index interlock_job_again_by_time on interlock_job_resubmitted (at);

-- Jobs that may be fetched now. A lane has at most one ready job.
create table interlock_job_ready (
    kind     integer not null,
    class     integer not null,
    sort     integer not null,
    id       integer not null,
    priority integer not null,
    lane     text,
    primary key (kind, class, sort, id)
) without rowid;

create unique index interlock_job_ready_by_lane on interlock_job_ready (lane) where lane is not null;

-- Fetched jobs and their workers. cancel: why a cancellation was requested; notified: whether its session got a message.
-- started: whether its worker has reported that its handler runs. hooked: whether it has end hooks.
create table interlock_job_fetched (
    id         integer primary key,
    worker     integer not null,
    fence      integer not null,
    fetched_at integer not null,
    lane       text,
    uses       text,
    cancel     text,
    notified       integer not null default 0,
    fetch_number       integer not null,
    started    integer not null default 0,
    hooked     integer not null default 0
);

create index interlock_job_fetched_by_worker on interlock_job_fetched (worker);
create index interlock_job_fetched_by_lane on interlock_job_fetched (lane) where lane is not null;
create index interlock_job_fetched_by_start on interlock_job_fetched (id) where started;

-- Scheduled jobs; at is their due_at. has_position: it already has a position in its lane.
create table interlock_job_scheduled (
    kind   integer not null,
    at     integer not null,
    id     integer not null,
    has_position integer not null,
    primary key (kind, at, id)
) without rowid;

-- The queues of limits. A job that is woken is ready too and keeps its ticket.
create table interlock_job_limit_wait (
    namespace text not null,
    key       text not null,
    kind      integer not null,
    ticket    integer not null,
    id        integer not null,
    woken     integer not null default 0,
    in_lane     integer not null,
    primary key (namespace, key, kind, ticket)
) without rowid;

create unique index interlock_job_wait_by_id on interlock_job_limit_wait (id);

-- The limits of fetched jobs. per is 0 for slots.
create table interlock_job_use (
    namespace text not null,
    key       text not null,
    id        integer not null,
    max_count      integer not null,
    per       integer not null,
    primary key (namespace, key, id)
) without rowid;

-- Starts that count against a rate or cooldown, even if their jobs have ended.
create table interlock_job_limit_start (
    namespace    text not null,
    key          text not null,
    at           integer not null,
    number       integer not null,
    id           integer not null,
    counts_until integer not null,
    primary key (namespace, key, at, number)
) without rowid;

create index interlock_job_limit_start_by_end on interlock_job_limit_start (counts_until);

-- When the rate or cooldown of a key with waiters allows the next start.
create table interlock_job_wake (
    namespace text not null,
    key       text not null,
    at        integer not null,
    primary key (namespace, key)
) without rowid;

create index interlock_job_wake_by_time on interlock_job_wake (namespace, at);

-- Lanes that a person holds or that a failure has parked.
create table interlock_job_hold (
    lane          text primary key,
    held_by       text,
    held_reason   text,
    held_since    integer,
    parked_reason text,
    parked_since  integer
) without rowid;

-- Sessions to notify of the end of a job.
create table interlock_job_watch (
    namespace text not null,
    session   text not null,
    id        integer not null,
    primary key (namespace, session, id)
) without rowid;

-- Ended jobs. The row itself describes the last attempt of a job that is done. result_until is null if there was no result.
create table interlock_job_history (
    id            integer primary key,
    kind          integer not null,
    state         text not null,
    lane          text,
    priority      integer not null,
    enqueued_at   integer not null,
    due_at        integer not null,
    fetched_at    integer,
    finished_at   integer not null,
    ran           integer not null,
    attempt       integer not null,
    crashes       integer not null,
    fence         integer not null,
    worker        integer,
    on_failure       text not null,
    coalesces    integer not null,
    keep_result   integer not null,
    limits        integer not null,
    superseded_by integer,
    result_until  integer,
    uses          text,
    error         text,
    attempts      text,
    options       text not null,
    arguments     text not null,
    hooks         text,
    cause         text
);

create index interlock_job_history_by_end on interlock_job_history (kind, finished_at, state, enqueued_at);
create index interlock_job_history_by_lane on interlock_job_history (lane) where lane is not null;
create index interlock_job_history_by_state on interlock_job_history (state) where state <> 'done';

create table interlock_job_result (
    id         integer primary key,
    result     text not null,
    kept_until integer not null
);

create index interlock_job_result_by_end on interlock_job_result (kept_until);
