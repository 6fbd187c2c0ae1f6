select name, value, version, moved_at, moved_by from interlock_cursor_move
where namespace = :namespace and name = :name
order by version desc
limit :limit
