create table interlock_session (
    namespace  text not null,
    id         text not null,
    host       text not null,
    pid        integer not null,
    program    text not null,
    begun_at   real not null,
    expires_at real not null,
    -- Since when the event loop of its process has been blocked, and by what; null while it is not blocked.
    blocked_since real,
    blocked_by    text not null default '',
    primary key (namespace, id)
) without rowid;

create table interlock_fence (
    namespace text primary key,
    last      integer not null
) without rowid;

-- Locks that are held or waited for. owner is null while the lock is free for the first waiter. ended_owner and ended_why: the
-- last lease that ended, and why.
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

-- Messages to sessions whose leases or jobs were interrupted. Kept for an hour, or until their session ends.
create table interlock_forced (
    namespace text not null,
    session   text not null,
    owner     text not null,
    why       text not null,
    at        real not null,
    primary key (namespace, session, owner)
) without rowid;

-- The ticket is the time of the request (queue_order.py) and decides the order; asked_at is when the request arrived.
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
