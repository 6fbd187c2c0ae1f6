-- name: add_move
-- Store a cursor's next position as a new version.
insert into interlock_cursor_move (namespace, name, version, value, moved_at, moved_by, id)
values (:namespace, :name, :version, :value, :now, :by, :id)

-- name: find_move
-- Find a move by its ID, so that a repeated move is recognized.
select name, value, version, moved_at, moved_by from interlock_cursor_move
where namespace = :namespace and name = :name and id = :id

-- name: trim_history
-- Delete all but the newest versions of a cursor.
delete from interlock_cursor_move
where namespace = :namespace and name = :name
  and version <= (
      select m.version from interlock_cursor_move m
      where m.namespace = :namespace and m.name = :name
      order by m.version desc limit 1 offset :kept)

-- name: list_cursors
-- List cursors at their newest version, by name.
select name, value, max(version), moved_at, moved_by from interlock_cursor_move
where namespace = :namespace
group by name
order by name
limit :limit

-- name: history
-- List a cursor's moves, newest first.
select name, value, version, moved_at, moved_by from interlock_cursor_move
where namespace = :namespace and name = :name
order by version desc
limit :limit

-- name: delete_cursor
-- Delete a cursor with its history.
delete from interlock_cursor_move where namespace = :namespace and name = :name
