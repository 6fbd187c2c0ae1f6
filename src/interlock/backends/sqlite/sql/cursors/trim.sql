delete from interlock_cursor_move
where namespace = :namespace and name = :name
  and version <= (
      select m.version from interlock_cursor_move m
      where m.namespace = :namespace and m.name = :name
      order by m.version desc limit 1 offset :kept)
