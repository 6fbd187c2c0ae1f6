-- Move a cursor if it stands at the version expected. Answers {1, view}, or {0, view if there is one}.
local name, expected, value, id, by, kept = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])

local moves = moves_of(name)
local stands = moves[1]
if expected ~= (stands and stands.version or '0') then
    for _, move in ipairs(moves) do
        if move.id == id then
            return {1, cursor_view(name, move)}
        end
    end
    return {0, stands and cursor_view(name, stands) or false}
end
local _, version, now_text = next_fence()
-- Numbers travel as text: cjson would round them.
local move = {id = id, value = value, version = version, moved_at = now_text, by = by}
call('LPUSH', prefix .. 'cursor:' .. name, cjson.encode(move))
call('LTRIM', prefix .. 'cursor:' .. name, 0, kept - 1)
call('ZADD', prefix .. 'cursors', 0, name)
return {1, cursor_view(name, move)}
