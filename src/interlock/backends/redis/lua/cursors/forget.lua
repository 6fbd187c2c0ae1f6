-- include: common cursors
-- Delete a cursor with its history. Returns its last view, or nothing if there was none.
local name = ARGV[3]
local newest = moves_of(name)[1]
if not newest then
    return false
end
call('DEL', prefix .. 'cursor:' .. name)
call('ZREM', prefix .. 'cursors', name)
return cursor_view(name, newest)
