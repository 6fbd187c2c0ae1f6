-- Schedules. cron, or every in microseconds (0 for cron). next_at: when it fires next, kept while it is not active.
-- template: how the job is enqueued by processes that do not define it, as JSON. last_at, last_job: the last firing that
-- enqueued a job. firings: the number of the last row in interlock_schedule_firing. declaration: the fingerprint of what
-- code declares; replaced: those before it, as JSON. edit: the ID of the last edit. Times are whole microseconds.
create table interlock_schedule (
    namespace    text not null,
    name         text not null,
    version      integer not null,
    origin       text not null,
    state        text not null,
    job          text not null,
    arguments    text not null,
    cron         text not null,
    every        integer not null,
    timezone     text not null,
    misfire      text not null,
    grace        integer not null,
    overlap      text not null,
    jitter       integer not null,
    template     text not null,
    anchor_at    integer not null,
    next_at      integer,
    created_at   integer not null,
    updated_at   integer not null,
    updated_by   text not null,
    state_at     integer not null,
    state_by     text not null,
    state_reason text not null,
    last_at      integer,
    last_job     integer,
    fired        integer not null default 0,
    skipped      integer not null default 0,
    missed       integer not null default 0,
    firings      integer not null default 0,
    declaration  text not null,
    replaced     text not null default '[]',
    edit         text not null default '',
    reported     integer not null default 0,
    primary key (namespace, name)
) without rowid;

create index interlock_schedule_due on interlock_schedule (namespace, next_at) where state = 'active';

-- What the code of each live process declares.
create table interlock_schedule_declaration (
    namespace   text not null,
    name        text not null,
    session     text not null,
    fingerprint text not null,
    primary key (namespace, name, session)
) without rowid;

-- The last firings of each schedule. at: the time that it was for. count: how many times a missed entry stands for.
create table interlock_schedule_firing (
    namespace text not null,
    name      text not null,
    number    integer not null,
    at        integer not null,
    fired_at  integer not null,
    kind      text not null,
    outcome   text not null,
    job       integer,
    count     integer not null,
    primary key (namespace, name, number)
) without rowid;

create index interlock_schedule_firing_by_job on interlock_schedule_firing (job) where job is not null;
