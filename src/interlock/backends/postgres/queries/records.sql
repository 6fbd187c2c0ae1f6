-- name: write
-- Apply writes of records.
select answer, version, at, details from interlock.record_write(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)

-- name: write_one
-- Replace one record.
select answer, version, at, details from interlock.record_write_one(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)

-- name: write_and_release
-- Apply writes of records, and release leases with those that are made.
select answer, version, at, details from interlock.record_write_and_release(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
    $25, $26, $27, $28, $29, $30, $31)

-- name: write_one_and_release
-- Replace one record, and release its lease.
select answer, version, at, details, released, why, next_owner, fence, expires_at
from interlock.record_write_one_and_release(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)

-- name: open
-- Ask for the locks of records, and read the records whose locks are granted.
select answer, fence, expires_at, recheck_in, details, kind, id, uid, version, status, body, record_fence, created_at,
       updated_at
from interlock.record_open($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: get
-- Read records.
select r.kind, r.id, r.uid, r.version, r.status, r.body, r.fence, r.created_at, r.updated_at
from unnest($2::text[], $3::text[]) as u (kind, id)
cross join lateral (
    select x.* from interlock.record x where x.namespace = $1 and x.kind = u.kind and x.id = u.id limit 1) r

-- name: get_current
-- Read records after the writes that are in progress on them; $4 is whether to wait for those or to leave them out.
select r.kind, r.id, r.uid, r.version, r.status, r.body, r.fence, r.created_at, r.updated_at
from interlock.record_read_current($1, $2, $3, $4) r

-- name: list_any
-- List records of a kind by ID.
select r.kind, r.id, r.uid, r.version, r.status, r.body, r.fence, r.created_at, r.updated_at
from interlock.record r
where r.namespace = $1 and r.kind = $2 and r.id > $3 and r.id >= $4 and starts_with(r.id, $4)
  and ($5::text is null or r.body::jsonb @> $5::jsonb)
order by r.id limit $6

-- name: list_status
-- List records of a kind that have a status ($7) by ID.
select r.kind, r.id, r.uid, r.version, r.status, r.body, r.fence, r.created_at, r.updated_at
from interlock.record r
where r.namespace = $1 and r.kind = $2 and r.status = $7 and r.id > $3 and r.id >= $4 and starts_with(r.id, $4)
  and ($5::text is null or r.body::jsonb @> $5::jsonb)
order by r.id limit $6

-- name: kinds
-- The kinds that have records, each found by its first one.
with recursive kinds as (
    (select r.kind from interlock.record r where r.namespace = $1 order by r.kind limit 1)
    union all
    select (select r.kind from interlock.record r where r.namespace = $1 and r.kind > k.kind order by r.kind limit 1)
    from kinds k where k.kind is not null
)
select kind from kinds where kind is not null
