select moved, at_version, value, moved_at, moved_by from interlock.cursor_go($1, $2, $3, $4, $5, $6, $7, $8)
