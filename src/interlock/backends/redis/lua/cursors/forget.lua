-- Remove a cursor and its history. Answers where it stood, or nothing if there was none.
local name = ARGV[3]
local stands = moves_of(name)[1]
if not stands then
    return false
end
call('DEL', prefix .. 'cursor:' .. name)
call('ZREM', prefix .. 'cursors', name)
return cursor_view(name, stands)
