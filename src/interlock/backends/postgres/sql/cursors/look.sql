select m.name, m.value, m.version, extract(epoch from m.moved_at)::float8, m.moved_by
from interlock.cursor c
join interlock.cursor_move m on m.namespace = c.namespace and m.name = c.name and m.version = c.version
where c.namespace = $1
order by c.name
limit $2
