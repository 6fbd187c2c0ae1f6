-- name: get
-- Read records by their IDs.
select kind, id, uid, version, status, body, fence, created_at, updated_at
from interlock_record
where namespace = :namespace and kind = :kind and id in (select value from json_each(:ids))
order by id

-- name: list_any
-- List records of a kind by ID.
select kind, id, uid, version, status, body, fence, created_at, updated_at
from interlock_record r
where namespace = :namespace and kind = :kind and id > :after and id >= :prefix
  and substr(id, 1, length(:prefix)) = :prefix
  and not exists (
      select 1 from json_each(:where) w
      where not exists (
          select 1 from json_each(r.body) b where b.key = w.key and b.type = w.type and b.atom is w.atom))
order by id
limit :limit

-- name: list_status
-- List records of a kind in one status by ID.
select kind, id, uid, version, status, body, fence, created_at, updated_at
from interlock_record r
where namespace = :namespace and kind = :kind and status = :status and id > :after and id >= :prefix
  and substr(id, 1, length(:prefix)) = :prefix
  and not exists (
      select 1 from json_each(:where) w
      where not exists (
          select 1 from json_each(r.body) b where b.key = w.key and b.type = w.type and b.atom is w.atom))
order by id
limit :limit

-- name: kinds
-- List the kinds that have records, one index search for each.
with recursive found(kind) as (
    select min(kind) from interlock_record where namespace = :namespace
    union all
    select (select min(kind) from interlock_record where namespace = :namespace and kind > found.kind)
    from found where found.kind is not null
)
select kind from found where kind is not null

-- name: read_state
-- Read what a change is checked against.
select uid, version, fence, updated_at from interlock_record
where namespace = :namespace and kind = :kind and id = :id

-- name: insert_record
-- Create a record.
insert into interlock_record (namespace, kind, id, uid, version, status, body, fence, created_at, updated_at)
values (:namespace, :kind, :id, :uid, 0, :status, :body, :fence, :at, :at)

-- name: update_record
-- Write the next version of a record.
update interlock_record
set version = version + 1, status = :status, body = :body, fence = coalesce(:fence, fence), updated_at = :at
where namespace = :namespace and kind = :kind and id = :id

-- name: delete_record
-- Delete a record.
delete from interlock_record where namespace = :namespace and kind = :kind and id = :id
