-- Cursors. Keys below the namespace's prefix:
--   cursor:NAME      its last moves, newest first, each as JSON {id, value, version, moved_at, by}
--   cursors          every cursor's name
local function moves_of(name)
    local moves = call('LRANGE', prefix .. 'cursor:' .. name, 0, -1)
    for i, move in ipairs(moves) do
        moves[i] = cjson.decode(move)
    end
    return moves
end

-- Return a cursor after one of its moves, in the order of the port's CursorView.
local function cursor_view(name, move)
    return {name, move.value, move.version, move.moved_at, move.by}
end
