-- Cursors. What is kept, below the namespace's prefix:
--   cursor:NAME      its last moves, the newest first, each as JSON {id, value, version, moved_at, by}
--   cursors          every cursor's name, in the order of names
local function moves_of(name)
    local moves = call('LRANGE', prefix .. 'cursor:' .. name, 0, -1)
    for i, move in ipairs(moves) do
        moves[i] = cjson.decode(move)
    end
    return moves
end

-- Where a cursor stands, or stood after one of its moves, as the port describes it.
local function cursor_view(name, move)
    return {name, move.value, move.version, move.moved_at, move.by}
end
