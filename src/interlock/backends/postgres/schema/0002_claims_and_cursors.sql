-- Held while state is 'in progress', until expires_at; expires_at is null once settled. As good as absent from
-- kept_until on, and removed some time after. Host, pid and program are the holder's: its session is forgotten sooner.
-- Keys are in the order of their code points, whatever the database's own order is.
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
    settled_at timestamptz,
    retry_at   timestamptz,
    error      text not null default '',
    result     text,
    keep       double precision not null,
    kept_until timestamptz not null,
    primary key (namespace, key)
);

-- Not the namespace first: where nothing is known of the table yet, it would be taken for as good as the primary key.
create index claim_by_kept_until on interlock.claim (kept_until, namespace);

-- Which of its moves a cursor stands at.
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
