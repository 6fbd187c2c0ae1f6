-- Versioned state. uid tells a record from an earlier one with the same ID; fence is the largest that a change carried.
-- Times are whole microseconds.
create table interlock_record (
    namespace  text not null,
    kind       text not null,
    id         text not null,
    uid        text not null,
    version    integer not null,
    status     text not null,
    body       text not null,
    fence      integer,
    created_at integer not null,
    updated_at integer not null,
    primary key (namespace, kind, id)
);

create index interlock_record_by_status on interlock_record (namespace, kind, status, id);

-- How programs declared a kind: its model, machine and strategies as JSON. The one with the largest declared_at is the
-- newest; digest is the SHA-256 of the text. Times are whole microseconds.
create table interlock_record_kind (
    namespace   text not null,
    kind        text not null,
    digest      text not null,
    declaration text not null,
    first_at    integer not null,
    declared_at integer not null,
    primary key (namespace, kind, digest)
);
