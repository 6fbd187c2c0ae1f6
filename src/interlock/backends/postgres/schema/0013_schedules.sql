-- Schedules. cron, or every in microseconds (0 for cron). next_at: when it fires next, kept while it is not active.
-- template: how the job is enqueued by processes that do not define it, as JSON. last_at, last_job: the last firing that
-- enqueued a job. firings: the number of the last row in schedule_firing. declaration: the fingerprint of what code
-- declares; replaced: those before it. edit: the ID of the last edit. Times are microseconds since 1970.
create table interlock.schedule (
    version      bigint not null,
    every        bigint not null,
    grace        bigint not null,
    jitter       bigint not null,
    anchor_at    bigint not null,
    next_at      bigint,
    created_at   bigint not null,
    updated_at   bigint not null,
    state_at     bigint not null,
    last_at      bigint,
    last_job     bigint,
    fired        bigint not null default 0,
    skipped      bigint not null default 0,
    missed       bigint not null default 0,
    firings      bigint not null default 0,
    reported     boolean not null default false,
    namespace    text collate "C" not null,
    name         text collate "C" not null,
    origin       text collate "C" not null,
    state        text collate "C" not null,
    job          text collate "C" not null,
    arguments    text not null,
    cron         text not null,
    timezone     text not null,
    misfire      text not null,
    overlap      text not null,
    template     text not null,
    updated_by   text not null,
    state_by     text not null,
    state_reason text not null,
    declaration  text collate "C" not null,
    replaced     text[] collate "C" not null default '{}',
    edit         text collate "C" not null default '',
    primary key (namespace, name)
) with (fillfactor = 70);

create index schedule_due on interlock.schedule (namespace, next_at) where state = 'active';

-- What the code of each live process declares.
create table interlock.schedule_declaration (
    namespace   text collate "C" not null,
    name        text collate "C" not null,
    session     text collate "C" not null,
    fingerprint text collate "C" not null,
    primary key (namespace, name, session)
);

-- The last firings of each schedule. at: the time that it was for. count: how many times a missed entry stands for.
create table interlock.schedule_firing (
    number    bigint not null,
    at        bigint not null,
    fired_at  bigint not null,
    job       bigint,
    count     integer not null,
    namespace text collate "C" not null,
    name      text collate "C" not null,
    kind      text collate "C" not null,
    outcome   text collate "C" not null,
    primary key (namespace, name, number)
);

create index schedule_firing_by_job on interlock.schedule_firing (job) where job is not null;
