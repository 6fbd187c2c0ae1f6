-- Records: versioned state. version rises by one with each write; uid tells a record from an earlier one with the same
-- ID; fence is the largest that a change carried. Times are microseconds since 1970.
create table interlock.record (
    version    bigint not null,
    fence      bigint,
    created_at bigint not null,
    updated_at bigint not null,
    namespace  text collate "C" not null,
    kind       text collate "C" not null,
    id         text collate "C" not null,
    uid        text collate "C" not null,
    status     text collate "C" not null,
    body       text not null,  -- not jsonb: the text is kept as it was written
    primary key (namespace, kind, id)
) with (fillfactor = 80);
create index record_by_status on interlock.record (namespace, kind, status, id);

do $$
begin
    execute 'alter table interlock.record alter column body set compression lz4';
exception when feature_not_supported or syntax_error or invalid_parameter_value then
    null;
end
$$;

-- A foreign statement that changes a record and leaves its version raises it, so that others notice the change. The set
-- of functions replaces this one.
create or replace function interlock.record_count_foreign() returns trigger
language plpgsql
as $$ begin return new; end $$;
create trigger record_foreign before update on interlock.record
    for each row when (new.version = old.version) execute function interlock.record_count_foreign();

-- How programs declared a kind: its model, machine and strategies as JSON. The one with the largest declared_at is the
-- newest; digest is the SHA-256 of the text.
create table interlock.record_kind (
    first_at    bigint not null,
    declared_at bigint not null,
    namespace   text collate "C" not null,
    kind        text collate "C" not null,
    digest      text collate "C" not null,
    declaration text not null,
    primary key (namespace, kind, digest)
);
