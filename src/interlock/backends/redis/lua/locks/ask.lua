-- include: common locks
-- Acquire a lock or queue for it. Returns {1 granted, fence, expiry}, {2 waiting, ask again in}, {3 busy, holder},
-- {4 deadlocked, cycle} or {5 session ended}.
local key, owner, caller, session = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local ttl, wait, nested, turn = tonumber(ARGV[7]), ARGV[8], ARGV[9] == '1', tonumber(ARGV[10])
-- With so many waiters ahead the wait is long, and need not be computed exactly.
local FAR = 100

-- Count the live waiters ahead of this owner, or ahead of a new one. Dead waiters among them are removed.
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
                if ahead >= FAR and now < lock.free_since + ahead * turn then
                    return ahead
                end
            else
                dequeue(key, other)
            end
        end
    end
end

-- Return the cycle of waits that this wait would close, flat as caller, key and holder, starting with its own; nil if there
-- is none.
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

if session_expiry(session) <= now then
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
free_if_expired(lock)
local waiter = read_waiter(owner)
if waiter and not waiter.live then
    dequeue(key, owner)
    waiter = nil
end
local ask_again_in
if lock.live then
    ask_again_in = lock.ends_at - now
else
    ask_again_in = lock.free_since + count_ahead(lock) * turn - now
    if ask_again_in <= 0 then
        if waiter then
            dequeue(key, owner)
        end
        return {1, grant(key, owner, caller, session, ttl)}
    end
end
if wait == '0' then
    return {3, lock.live and holder_of(lock)}
end
if not waiter then
    local cycle = nested and find_cycle()
    if cycle then
        return {4, cycle}
    end
    enqueue()
end
if not lock.live then
    local first = first_live_waiter(key)
    notify(first.session, 'turn ' .. first.owner)
end
return {2, ask_again_in}
