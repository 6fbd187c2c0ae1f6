create table interlock.session (
    namespace  text not null,
    id         text not null,
    host       text not null,
    pid        integer not null,
    program    text not null,
    begun_at   timestamptz not null,
    expires_at timestamptz not null,
    -- Since when the event loop of its process has been blocked, and by what; null while it runs.
    blocked_since timestamptz,
    blocked_by    text not null default '',
    primary key (namespace, id)
) with (fillfactor = 50);

create sequence interlock.fence;

-- The server's timeline when fences were last drawn. A failover or a restored backup starts a new one.
create table interlock.timeline (
    number bigint not null,
    single boolean primary key default true check (single)
);

-- A key that is or was recently held or waited for. owner is null while it is free. Only the primary key is indexed,
-- so that every update of a row stays on its page.
create table interlock.lock (
    namespace   text not null,
    key         text not null,
    owner       text,
    caller       text,
    session     text,
    fence       bigint,
    granted_at  timestamptz,
    expires_at  timestamptz,
    free_since  timestamptz,
    ended_owner text,
    ended_why   text,
    primary key (namespace, key)
) with (fillfactor = 50);

create table interlock.waiter (
    ticket      bigint generated always as identity primary key,
    namespace   text not null,
    key         text not null,
    owner       text not null,
    caller       text not null,
    session     text not null,
    ttl         double precision not null,
    asked_at    timestamptz not null,
    gives_up_at timestamptz,
    unique (namespace, owner)
);

-- Leases taken by force, for holders that miss the notification. Kept for an hour, or until their session ends.
create table interlock.forced (
    namespace text not null,
    session   text not null,
    owner     text not null,
    why       text not null,
    at        timestamptz not null,
    primary key (namespace, session, owner)
);

create index waiter_by_key on interlock.waiter (namespace, key, ticket);
create index waiter_by_session on interlock.waiter (session, namespace);
create index waiter_by_party on interlock.waiter (caller, namespace);
