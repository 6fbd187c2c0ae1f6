insert into interlock_cursor_move (namespace, name, version, value, moved_at, moved_by, id)
values (:namespace, :name, :version, :value, :now, :by, :id)
