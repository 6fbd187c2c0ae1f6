-- Take a key or queue for it. Answers {1 granted, fence, expiry}, {2 waiting, look again in}, {3 busy, holder},
-- {4 deadlocked, cycle} or {5 session ended}.
local key, owner, caller, session = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local ttl, wait, nested, claim = tonumber(ARGV[7]), ARGV[8], ARGV[9] == '1', tonumber(ARGV[10])
-- Past so many places the time to look again is known to be long, and need not be known exactly.
local FAR = 100

-- How many live waiters stand before this owner, or before a newcomer; drops the dead among them.
local function count_ahead(lock)
    local ahead = 0
    while true do
        local others = call('ZRANGE', prefix .. 'queue:' .. key, ahead, ahead + FAR - 1)
        if #others == 0 then
            return ahead
        end
        for _, other in ipairs(others) do
            if other == owner then
                return ahead
            end
            local waiter = read_waiter(other)
            if waiter and waiter.live then
                ahead = ahead + 1
                if ahead >= FAR and now < lock.free_since + ahead * claim then
                    return ahead
                end
            else
                dequeue(key, other)
            end
        end
    end
end

-- The waits that this one would close into a cycle, flat as caller, key, holder, beginning with its own; nil if none.
local function find_cycle()
    local seen, steps = {[caller] = true}, {{caller = caller, key = key}}
    while #steps > 0 do
        local step = table.remove(steps)
        local lock = read_lock(step.key)
        if lock and lock.live then
            step.holder = lock.caller
            if lock.caller == caller then
                local path = {}
                while step do
                    table.insert(path, 1, step)
                    step = step.before
                end
                local cycle = {}
                for _, one in ipairs(path) do
                    cycle[#cycle + 1], cycle[#cycle + 2], cycle[#cycle + 3] = one.caller, one.key, one.holder
                end
                return cycle
            end
            if not seen[lock.caller] then
                seen[lock.caller] = true
                for _, other in ipairs(call('SMEMBERS', prefix .. 'waits:' .. lock.caller)) do
                    local waiter = read_waiter(other)
                    if waiter and waiter.live then
                        steps[#steps + 1] = {caller = lock.caller, key = waiter.key, before = step}
                    end
                end
            end
        end
    end
    return nil
end

local function enqueue()
    local gives_up_at = wait == '' and '' or int(now + tonumber(wait))
    call('ZADD', prefix .. 'queue:' .. key, call('INCR', prefix .. 'ticket'), owner)
    call('HSET', prefix .. 'waiter:' .. owner, 'key', key, 'caller', caller, 'session', session, 'ttl', ARGV[7],
        'asked_at', int(now), 'gives_up_at', gives_up_at)
    call('SADD', prefix .. 'waits:' .. caller, owner)
    call('HSET', prefix .. 'queues:' .. session, owner, key)
end

if alive_until(session) <= now then
    return {5}
end
local lock = read_lock(key)
if not lock then
    return {1, grant(key, owner, caller, session, ttl)}
end
if lock.live and lock.owner == owner then
    call('HSET', prefix .. 'lock:' .. key, 'expires_at', int(now + ttl))
    return {1, lock.fence, now + ttl}
end
free_if_dead(lock)
local mine = read_waiter(owner)
if mine and not mine.live then
    dequeue(key, owner)
    mine = nil
end
local look_again
if lock.live then
    look_again = lock.ends_at - now
else
    look_again = lock.free_since + count_ahead(lock) * claim - now
    if look_again <= 0 then
        if mine then
            dequeue(key, owner)
        end
        return {1, grant(key, owner, caller, session, ttl)}
    end
end
if wait == '0' then
    return {3, lock.live and holder_of(lock)}
end
if not mine then
    local cycle = nested and find_cycle()
    if cycle then
        return {4, cycle}
    end
    enqueue()
end
if not lock.live then
    local first = first_live(key)
    tell(first.session, 'turn ' .. first.owner)
end
return {2, look_again}
