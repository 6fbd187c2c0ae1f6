select name, value, max(version), moved_at, moved_by from interlock_cursor_move
where namespace = :namespace
group by name
order by name
limit :limit
