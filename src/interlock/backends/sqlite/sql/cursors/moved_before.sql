select name, value, version, moved_at, moved_by from interlock_cursor_move
where namespace = :namespace and name = :name and id = :id
