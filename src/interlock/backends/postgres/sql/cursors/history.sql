select name, value, version, extract(epoch from moved_at)::float8, moved_by
from interlock.cursor_move
where namespace = $1 and name = $2
order by version desc
limit $3
