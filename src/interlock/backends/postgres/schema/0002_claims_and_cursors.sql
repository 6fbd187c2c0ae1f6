-- A claim. It is held while state is 'in progress', until expires_at, which is null once the claim is finished. It
-- counts as absent from kept_until on, and is removed some time after. host, pid and program are the holder's,
-- because its session is removed sooner. Keys are ordered by code points, regardless of the database's collation.
create table interlock.claim (
    namespace  text not null,
    key        text collate "C" not null,
    state      text not null,
    attempt    integer not null,
    fence      bigint not null,
    owner      text not null,
    session    text not null,
    host       text not null,
    pid        integer not null,
    program    text not null,
    claimed_at timestamptz not null,
    expires_at timestamptz,
    finished_at timestamptz,
    retry_at   timestamptz,
    error      text not null default '',
    result     text,
    keep       double precision not null,
    kept_until timestamptz not null,
    primary key (namespace, key)
);

-- The namespace is not the first column: without statistics, the planner would consider the index as good as the
-- primary key.
create index claim_by_kept_until on interlock.claim (kept_until, namespace);

-- The current move of a cursor.
create table interlock.cursor (
    namespace text not null,
    name      text collate "C" not null,
    version   bigint not null,
    primary key (namespace, name)
);

create table interlock.cursor_move (
    namespace text not null,
    name      text collate "C" not null,
    version   bigint not null,
    value     text not null,
    moved_at  timestamptz not null,
    moved_by  text not null,
    id        text not null,
    primary key (namespace, name, version)
);
