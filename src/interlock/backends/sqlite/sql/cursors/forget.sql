delete from interlock_cursor_move where namespace = :namespace and name = :name
