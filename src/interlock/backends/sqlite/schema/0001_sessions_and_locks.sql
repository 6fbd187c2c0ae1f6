create table interlock_session (
    namespace  text not null,
    id         text not null,
    host       text not null,
    pid        integer not null,
    program    text not null,
    begun_at   real not null,
    expires_at real not null,
    -- Since when the event loop of its process has been blocked, and by what; null while it runs.
    blocked_since real,
    blocked_by    text not null default '',
    primary key (namespace, id)
) without rowid;

create table interlock_fence (
    namespace text primary key,
    last      integer not null
) without rowid;

-- A row while somebody holds or awaits the key. owner is null while it is free for the first in its queue.
create table interlock_lock (
    namespace     text not null,
    key           text not null,
    owner         text,
    caller         text,
    session       text,
    fence         integer,
    granted_at    real,
    expires_at    real,
    free_since    real,
    ended_owner   text,
    ended_why     text,
    primary key (namespace, key)
) without rowid;

create index interlock_lock_by_session on interlock_lock (namespace, session);

-- Leases taken by force, for their holders to find. Kept for an hour, or until their session ends.
create table interlock_forced (
    namespace text not null,
    session   text not null,
    owner     text not null,
    why       text not null,
    at        real not null,
    primary key (namespace, session, owner)
) without rowid;

-- The ticket is the time of asking, see tickets.py, and decides who is next; asked_at is when the request arrived here.
create table interlock_waiter (
    ticket      integer primary key,
    namespace   text not null,
    key         text not null,
    owner       text not null,
    caller       text not null,
    session     text not null,
    asked_at    real not null,
    gives_up_at real
);

create unique index interlock_waiter_by_owner on interlock_waiter (namespace, owner);
create index interlock_waiter_by_key on interlock_waiter (namespace, key, ticket);
create index interlock_waiter_by_session on interlock_waiter (namespace, session);
create index interlock_waiter_by_party on interlock_waiter (namespace, caller);
