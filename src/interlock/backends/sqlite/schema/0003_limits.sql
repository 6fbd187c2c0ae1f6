-- Times and spans of limits are whole microseconds, so that "exactly so far apart" is exact.

-- One owner's wish to start something. waits: 0 for nothing, 1 in the line of the key place, 2 for its time, which the
-- pace of place decided. Tickets grow in the order of arrival, in which paces give out their times; turn is the place in
-- every line, by the time of asking, see tickets.py.
create table interlock_limit_reservation (
    ticket     integer primary key autoincrement,
    turn       integer not null,
    namespace  text not null,
    owner      text not null,
    caller      text not null,
    session    text not null,
    asked_at   integer not null,
    last_asked integer not null,
    at         integer not null,
    started    integer not null,
    waits      integer not null,
    place      text not null
);

create unique index interlock_limit_reservation_by_owner on interlock_limit_reservation (namespace, owner);
create unique index interlock_limit_reservation_by_turn on interlock_limit_reservation (turn);
create index interlock_limit_reservation_by_session on interlock_limit_reservation (namespace, session);

-- The limits that a reservation is under. per is 0 for slots.
create table interlock_limit_use (
    namespace text not null,
    key       text not null,
    ticket    integer not null,
    most      integer not null,
    per       integer not null,
    primary key (namespace, key, ticket)
) without rowid;

create index interlock_limit_use_by_ticket on interlock_limit_use (ticket);

-- Starts that count for a pace, whatever became of their processes.
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
    most         integer not null,
    per          integer not null,
    asked_at     integer not null,
    primary key (namespace, key, at, ticket)
) without rowid;

create index interlock_limit_start_by_end on interlock_limit_start (namespace, counts_until);

-- Since when a key with a line has had room. Only keys that somebody stood in line for have a row.
create table interlock_limit_key (
    namespace  text not null,
    key        text not null,
    free_since integer not null,
    primary key (namespace, key)
) without rowid;
