-- include: common cursors
-- Move a cursor if it is at the expected version. Returns {1, view}, or {0, current view if there is one}.
local name, expected, value, id, by, kept = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])

local moves = moves_of(name)
local newest = moves[1]
if expected ~= (newest and newest.version or '0') then
    for _, move in ipairs(moves) do
        if move.id == id then
            return {1, cursor_view(name, move)}
        end
    end
    return {0, newest and cursor_view(name, newest) or false}
end
local _, version, now_text = next_fence()
-- Numbers are stored as text, because cjson would round them.
local move = {id = id, value = value, version = version, moved_at = now_text, by = by}
call('LPUSH', prefix .. 'cursor:' .. name, cjson.encode(move))
call('LTRIM', prefix .. 'cursor:' .. name, 0, kept - 1)
call('ZADD', prefix .. 'cursors', 0, name)
return {1, cursor_view(name, move)}
