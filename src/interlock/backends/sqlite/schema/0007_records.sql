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
