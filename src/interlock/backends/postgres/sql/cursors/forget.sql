select name, value, version, moved_at, moved_by from interlock.cursor_forget($1, $2, $3::jsonb, $4)
