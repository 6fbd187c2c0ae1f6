-- name: move
-- Move a cursor from the version that the caller expects.
select moved, at_version, value, moved_at, moved_by from interlock.cursor_advance($1, $2, $3, $4, $5, $6, $7, $8)

-- name: list
-- List cursors by name.
select m.name, m.value, m.version, extract(epoch from m.moved_at)::float8, m.moved_by
from interlock.cursor c
join interlock.cursor_move m on m.namespace = c.namespace and m.name = c.name and m.version = c.version
where c.namespace = $1
order by c.name
limit $2

-- name: history
-- List the last moves of a cursor.
select name, value, version, extract(epoch from moved_at)::float8, moved_by
from interlock.cursor_move
where namespace = $1 and name = $2
order by version desc
limit $3

-- name: forget
-- Remove a cursor and its history.
select name, value, version, moved_at, moved_by from interlock.cursor_forget($1, $2, $3::jsonb, $4)
