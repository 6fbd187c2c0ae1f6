-- Claims. While state is 'in progress', the lease ends at expires_at, which is null once the claim is finished. From kept_until
-- on the claim counts as absent; it is deleted later. Host, pid and program are the owner's, because its session is deleted
-- earlier.
create table interlock_claim (
    namespace  text not null,
    key        text not null,
    state      text not null,
    attempt    integer not null,
    fence      integer not null,
    owner      text not null,
    session    text not null,
    host       text not null,
    pid        integer not null,
    program    text not null,
    claimed_at real not null,
    expires_at real,
    finished_at real,
    retry_at   real,
    error      text not null default '',
    result     text,
    keep       real not null,
    kept_until real not null,
    primary key (namespace, key)
) without rowid;

create index interlock_claim_by_kept_until on interlock_claim (namespace, kept_until);

-- The last moves of each cursor. The move with the largest version is its current value.
create table interlock_cursor_move (
    namespace text not null,
    name      text not null,
    version   integer not null,
    value     text not null,
    moved_at  real not null,
    moved_by  text not null,
    id        text not null,
    primary key (namespace, name, version)
) without rowid;
