-- Times and durations of limits are whole microseconds, so that comparisons are exact.

-- Reservations: one owner's request to start something. wait_kind: 0 for nothing, 1 for a slot of the key waits_for, 2 for
-- the start time that the rate or cooldown of waits_for allows. Tickets grow in the order of arrival, in which start times are
-- planned. turn is its order in every queue, by the time of the request (queue_order.py). mark: the last number of a job when it
-- was requested; jobs that queue for a limit later have larger ones.
create table interlock_limit_reservation (
    ticket     integer primary key autoincrement,
    turn       integer not null,
    mark       integer not null,
    namespace  text not null,
    owner      text not null,
    caller      text not null,
    session    text not null,
    asked_at   integer not null,
    last_asked integer not null,
    at         integer not null,
    started    integer not null,
    wait_kind  integer not null,
    waits_for  text not null
);

create unique index interlock_limit_reservation_by_owner on interlock_limit_reservation (namespace, owner);
create unique index interlock_limit_reservation_by_turn on interlock_limit_reservation (turn);
create index interlock_limit_reservation_by_session on interlock_limit_reservation (namespace, session);

-- The limits of each reservation. per is 0 for slots.
create table interlock_limit_use (
    namespace text not null,
    key       text not null,
    ticket    integer not null,
    max_count      integer not null,
    per       integer not null,
    primary key (namespace, key, ticket)
) without rowid;

create index interlock_limit_use_by_ticket on interlock_limit_use (ticket);

-- Starts that count against a rate or cooldown, even if their processes have ended.
create table interlock_limit_start (
    namespace    text not null,
    key          text not null,
    at           integer not null,
    ticket       integer not null,
    counts_until integer not null,
    owner        text not null,
    caller        text not null,
    session      text not null,
    host         text not null,
    pid          integer not null,
    program      text not null,
    max_count         integer not null,
    per          integer not null,
    asked_at     integer not null,
    primary key (namespace, key, at, ticket)
) without rowid;

create index interlock_limit_start_by_end on interlock_limit_start (namespace, counts_until);

-- Figures that a person set, instead of those in the code. name: the kind and name of a limit (slots:containers), for all of
-- its keys, or one whole key.
create table interlock_limit_override (
    namespace  text not null,
    name       text not null,
    max_count  integer not null,
    per        integer not null,
    set_by     text not null,
    reason     text not null,
    set_at     integer not null,
    primary key (namespace, name)
) without rowid;

-- Since when a key with waiters has had a free slot. Only keys that had waiters have a row.
create table interlock_limit_key (
    namespace  text not null,
    key        text not null,
    free_since integer not null,
    primary key (namespace, key)
) without rowid;
