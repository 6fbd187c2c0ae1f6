-- Free at most so many of the things that an ended session holds or waits for, and tell whoever is next. Says how many.
local function some_of(name, most)
    local cursor, found = '0', {}
    repeat
        local answer = call('HSCAN', name, cursor, 'COUNT', most)
        cursor, found = answer[1], answer[2]
    until #found > 0 or cursor == '0'
    return found
end

local function clear(session, most)
    local touched = {}
    local places = some_of(prefix .. 'queues:' .. session, most)
    for i = 1, #places, 2 do
        dequeue(places[i + 1], places[i])
        call('HDEL', prefix .. 'queues:' .. session, places[i])
        touched[#touched + 1] = places[i + 1]
    end
    local leases = some_of(prefix .. 'holds:' .. session, most)
    for i = 1, #leases, 2 do
        local lock = read_lock(leases[i + 1])
        if lock and lock.owner == leases[i] then
            free(lock, 'its session ended', lock.free_since)
        end
        call('HDEL', prefix .. 'holds:' .. session, leases[i])
        touched[#touched + 1] = leases[i + 1]
    end
    for _, key in ipairs(touched) do
        local lock = read_lock(key)
        if lock and not lock.live then
            free_if_dead(lock)
            pass_on(key, session)
        end
    end
    return #touched
end
