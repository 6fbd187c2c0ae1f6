-- name: search_any
-- Search the next :scan IDs of a kind. A row without a version has the last of them, if there are so many.
with scanned as materialized (
    select id from interlock_record where namespace = :namespace and kind = :kind and id > :after
    order by id limit :scan
), found as (
    select id from scanned where instr(id, :contains) > 0 order by id limit :limit
)
select r.id, r.version, r.status, r.fence, r.created_at, r.updated_at
from found f join interlock_record r on r.namespace = :namespace and r.kind = :kind and r.id = f.id
union all
select id, null, '', null, 0, 0 from (select id from scanned order by id limit 1 offset :scan - 1)

-- name: search_status
-- The same for the records of a kind that have a status.
with scanned as materialized (
    select id from interlock_record where namespace = :namespace and kind = :kind and status = :status and id > :after
    order by id limit :scan
), found as (
    select id from scanned where instr(id, :contains) > 0 order by id limit :limit
)
select r.id, r.version, r.status, r.fence, r.created_at, r.updated_at
from found f join interlock_record r on r.namespace = :namespace and r.kind = :kind and r.id = f.id
union all
select id, null, '', null, 0, 0 from (select id from scanned order by id limit 1 offset :scan - 1)

-- name: record_kinds
-- List the kinds that have records, one index search for each.
with recursive found(kind) as (
    select min(kind) from interlock_record where namespace = :namespace
    union all
    select (select min(kind) from interlock_record where namespace = :namespace and kind > found.kind)
    from found where found.kind is not null
)
select kind from found where kind is not null

-- name: count_statuses
-- Count the records of a kind by status, up to a bound: one index search finds each status.
with recursive found(status, number) as (
    select min(status), 1 from interlock_record where namespace = :namespace and kind = :kind
    union all
    select (select min(status) from interlock_record
            where namespace = :namespace and kind = :kind and status > found.status), number + 1
    from found where found.status is not null and number < :limit
)
select f.status, (
    select count(*) from (
        select 1 from interlock_record r
        where r.namespace = :namespace and r.kind = :kind and r.status = f.status limit :bound))
from found f where f.status is not null

-- name: newest_declaration
-- Find the newest declaration of a kind.
select digest, declared_at from interlock_record_kind
where namespace = :namespace and kind = :kind order by declared_at desc, digest limit 1

-- name: declare_kind
-- Make a declaration the newest one of its kind.
insert into interlock_record_kind (namespace, kind, digest, declaration, first_at, declared_at)
values (:namespace, :kind, :digest, :declaration, :at, :at)
on conflict (namespace, kind, digest) do update set declared_at = excluded.declared_at

-- name: forget_declarations
-- Forget all but the newest declarations of a kind.
delete from interlock_record_kind
where namespace = :namespace and kind = :kind and digest in (
    select digest from interlock_record_kind
    where namespace = :namespace and kind = :kind order by declared_at desc, digest limit -1 offset :keep)

-- name: declarations
-- The declarations of a kind, or of all kinds, the newest of each kind first.
select kind, declaration, first_at, declared_at from interlock_record_kind
where namespace = :namespace and (:kind = '' or kind = :kind)
order by kind, declared_at desc, digest
