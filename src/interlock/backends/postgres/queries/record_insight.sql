-- name: search_any
-- Search the next $4 IDs of a kind. A row without a version has the last of them, if there are so many.
with scanned as materialized (
    select r.id from interlock.record r where r.namespace = $1 and r.kind = $2 and r.id > $3 order by r.id limit $4
), found as (
    select id from scanned where position($5::text in id) > 0 order by id limit $6
)
select r.id, r.version, r.status, r.fence, r.created_at, r.updated_at
from found f cross join lateral (
    select x.* from interlock.record x where x.namespace = $1 and x.kind = $2 and x.id = f.id limit 1) r
union all
(select id, null, '', null, 0, 0 from scanned order by id offset $4 - 1 limit 1)

-- name: search_status
-- The same for the records of a kind that have a status ($7).
with scanned as materialized (
    select r.id from interlock.record r
    where r.namespace = $1 and r.kind = $2 and r.status = $7 and r.id > $3 order by r.id limit $4
), found as (
    select id from scanned where position($5::text in id) > 0 order by id limit $6
)
select r.id, r.version, r.status, r.fence, r.created_at, r.updated_at
from found f cross join lateral (
    select x.* from interlock.record x where x.namespace = $1 and x.kind = $2 and x.id = f.id limit 1) r
union all
(select id, null, '', null, 0, 0 from scanned order by id offset $4 - 1 limit 1)

-- name: counts
-- Count records by kind and status, each up to $2: one index search finds each of the first $3 pairs.
with recursive pair as (
    (select r.kind, r.status, 1 as number from interlock.record r
     where r.namespace = $1 order by r.kind, r.status limit 1)
    union all
    select n.kind, n.status, p.number + 1
    from pair p cross join lateral (
        select r.kind, r.status from interlock.record r
        where r.namespace = $1 and (r.kind, r.status) > (p.kind, p.status) order by r.kind, r.status limit 1) n
    where p.number < $3
)
select p.kind, p.status, (
    select count(*) from (
        select 1 from interlock.record r
        where r.namespace = $1 and r.kind = p.kind and r.status = p.status limit $2) counted)
from pair p order by p.number

-- name: newest_declaration
-- Find the newest declaration of a kind.
select digest from interlock.record_kind
where namespace = $1 and kind = $2 order by declared_at desc, digest limit 1

-- name: declare
-- Make a declaration the newest one of its kind, and forget all but the newest $6. Of two programs that declare a kind
-- at the same time, none forgets what the other declares: a row that has changed meanwhile is not deleted.
with declared as (
    insert into interlock.record_kind as k (namespace, kind, digest, declaration, first_at, declared_at)
    select $1, $2, $3, $4, now.at, greatest(now.at, 1 + coalesce(
        (select max(n.declared_at) from interlock.record_kind n where n.namespace = $1 and n.kind = $2), 0))
    from (select interlock.micros(interlock.now_or($5)) as at) now
    on conflict (namespace, kind, digest) do update
    set declared_at = greatest(excluded.declared_at, k.declared_at)
)
delete from interlock.record_kind r
using (
    select o.digest, o.declared_at from interlock.record_kind o
    where o.namespace = $1 and o.kind = $2 and o.digest <> $3
    order by o.declared_at desc, o.digest offset $6 - 1
) old
where r.namespace = $1 and r.kind = $2 and r.digest = old.digest and r.declared_at = old.declared_at

-- name: declarations
-- The declarations of a kind, or of all kinds, the newest of each kind first.
select kind, declaration, first_at, declared_at from interlock.record_kind
where namespace = $1 and ($2 = '' or kind = $2)
order by kind, declared_at desc, digest
