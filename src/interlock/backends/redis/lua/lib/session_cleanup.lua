-- Cleanup of sessions that have ended.

-- Return at least one pair of a hash, unless it is empty, and about so many.
local function some_pairs(name, count)
    local cursor, found = '0', {}
    repeat
        local answer = call('HSCAN', name, cursor, 'COUNT', count)
        cursor, found = answer[1], answer[2]
    until #found > 0 or cursor == '0'
    return found
end

-- Free about so many of the locks that an ended session holds or waits for, and notify the next waiters. Returns how many.
local function free_session(session, count)
    local touched = {}
    local queued = some_pairs(prefix .. 'queues:' .. session, count)
    for i = 1, #queued, 2 do
        dequeue(queued[i + 1], queued[i])
        call('HDEL', prefix .. 'queues:' .. session, queued[i])
        touched[#touched + 1] = queued[i + 1]
    end
    local leases = some_pairs(prefix .. 'holds:' .. session, count)
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
            free_if_expired(lock)
            notify_next_waiter(key, session)
        end
    end
    return #touched
end
