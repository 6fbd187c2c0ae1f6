-- Times and durations of limits are whole microseconds, so that comparisons are exact.

-- The row that is locked before anything under a key is counted or changed is that of job_limit: jobs and reservations
-- under one key are one limit. Tickets of both come from job_ticket, so that they can be compared.

-- Figures that a person set, instead of those in the code. name: the kind and name of a limit (slots:containers), for all
-- of its keys, or one whole key. Rows of job_limit repeat it.
create table interlock.limit_override (
    namespace text not null,
    name      text collate "C" not null,
    max_count integer not null,
    per       bigint not null,
    set_by    text not null,
    reason    text not null,
    set_at    bigint not null,
    primary key (namespace, name)
);

-- A reservation: one row for each limit it is under, equal except for key, max_count and per (0 for slots). wait_kind: 0 for
-- nothing, 1 in the queue of the key waits_for, 2 for its time, which the rate of the key waits_for determined. The
-- ticket is its position in every queue. A reservation is changed only while all of its keys are locked, so that the
-- rows of a locked key do not change.
create table interlock.limit_use (
    namespace  text not null,
    key        text collate "C" not null,
    ticket     bigint not null,
    owner      text not null,
    caller      text not null,
    session    text not null,
    max_count       integer not null,
    per        bigint not null,
    asked_at   bigint not null,
    last_asked bigint not null,
    at         bigint not null,
    started    boolean not null,
    wait_kind  smallint not null,
    waits_for  text not null,
    primary key (namespace, owner, key)
) with (fillfactor = 70);

create index limit_use_by_key on interlock.limit_use (namespace, key, ticket);
create index limit_use_by_session on interlock.limit_use (session, namespace);

-- Starts that count for a rate or cooldown, even after their processes have ended.
create table interlock.limit_start (
    namespace    text not null,
    key          text collate "C" not null,
    at           bigint not null,
    ticket       bigint not null,
    counts_until bigint not null,
    owner        text not null,
    caller        text not null,
    session      text not null,
    host         text not null,
    pid          integer not null,
    program      text not null,
    max_count         integer not null,
    per          bigint not null,
    asked_at     bigint not null,
    primary key (namespace, key, at, ticket)
);

create index limit_start_by_end on interlock.limit_start (counts_until, namespace);
