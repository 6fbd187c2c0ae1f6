-- Leases. What is kept, below the namespace's prefix:
--   ticket           the last place given out in any queue
--   names            every key that is held or awaited, in the order of names
--   lock:KEY         the holder, or since when the key is free; exists while somebody holds or awaits it
--   queue:KEY        the owners that wait, by their tickets
--   waiter:OWNER     one place in a queue
--   waits:PARTY      the owners under which a caller waits
--   holds:SESSION    owner and key of everything a session holds
--   queues:SESSION   owner and key of everything it waits for
--   forced           why a lease was taken by force, by its owner; forced_at: when
local EXPIRED = 'it had expired'

-- A key as it is now: owner is false while it is free, live says whether the lease is. Nil if nobody has it or wants it.
local function read_lock(key)
    local f = call('HMGET', prefix .. 'lock:' .. key,
        'owner', 'caller', 'session', 'fence', 'granted_at', 'expires_at', 'free_since')
    if f[1] then
        local granted_at, ends_at = tonumber(f[5]), math.min(tonumber(f[6]), alive_until(f[3]))
        return {
            key = key, owner = f[1], caller = f[2], session = f[3], fence = tonumber(f[4]), granted_at = granted_at,
            ends_at = ends_at, live = ends_at > now, free_since = math.min(math.max(ends_at, granted_at), now),
        }
    elseif f[7] then
        return {key = key, owner = false, live = false, free_since = math.min(tonumber(f[7]), now)}
    end
    return nil
end

local function read_waiter(owner)
    local f = call('HMGET', prefix .. 'waiter:' .. owner, 'key', 'caller', 'session', 'ttl', 'asked_at', 'gives_up_at')
    if not f[1] then
        return nil
    end
    local gives_up_at = f[6] ~= '' and tonumber(f[6])
    return {
        owner = owner, key = f[1], caller = f[2], session = f[3], ttl = tonumber(f[4]), asked_at = tonumber(f[5]),
        gives_up_at = gives_up_at, live = (not gives_up_at or gives_up_at > now) and alive_until(f[3]) > now,
    }
end

-- Make an owner the holder of a key that nobody holds.
local function grant(key, owner, caller, session, ttl)
    local fence, fence_text, now_text = next_fence()
    local expires_at = now + ttl
    call('HSET', prefix .. 'lock:' .. key, 'owner', owner, 'caller', caller, 'session', session, 'fence', fence_text,
        'granted_at', now_text, 'expires_at', int(expires_at))
    call('HSET', prefix .. 'holds:' .. session, owner, key)
    call('ZADD', prefix .. 'names', 0, key)
    return fence, expires_at
end

-- End a lease; the key is free, for its queue.
local function free(lock, why, at)
    local name = prefix .. 'lock:' .. lock.key
    call('HDEL', prefix .. 'holds:' .. lock.session, lock.owner)
    call('HDEL', name, 'owner')
    call('HSET', name, 'free_since', int(at), 'ended_owner', lock.owner, 'ended_why', why)
    lock.owner, lock.live, lock.free_since = false, false, at
end

-- Clear a lease that was found dead.
local function free_if_dead(lock)
    if lock.owner and not lock.live then
        free(lock, EXPIRED, lock.free_since)
    end
end

local function forget(key)
    call('DEL', prefix .. 'lock:' .. key)
    call('ZREM', prefix .. 'names', key)
end

local function dequeue(key, owner)
    local w = call('HMGET', prefix .. 'waiter:' .. owner, 'caller', 'session')
    call('ZREM', prefix .. 'queue:' .. key, owner)
    if w[1] then
        call('DEL', prefix .. 'waiter:' .. owner)
        call('SREM', prefix .. 'waits:' .. w[1], owner)
        call('HDEL', prefix .. 'queues:' .. w[2], owner)
    end
end

-- The first live waiter of a key; the dead before it are dropped.
local function first_live(key)
    while true do
        local owner = call('ZRANGE', prefix .. 'queue:' .. key, 0, 0)[1]
        if not owner then
            return nil
        end
        local waiter = read_waiter(owner)
        if waiter and waiter.live then
            return waiter
        end
        dequeue(key, owner)
    end
end

-- Who is next at a free key; told at once unless it belongs to the leaver. Forgets a key that nobody wants.
local function pass_on(key, leaver)
    local first = first_live(key)
    if not first then
        forget(key)
        return false
    end
    if first.session ~= leaver then
        tell(first.session, 'turn ' .. first.owner)
    end
    return first.owner
end

-- Why an owner's lease is over.
local function why_ended(key, owner)
    local ended = call('HMGET', prefix .. 'lock:' .. key, 'ended_owner', 'ended_why')
    if ended[1] == owner then
        return ended[2]
    end
    return call('HGET', prefix .. 'forced', owner) or EXPIRED
end

-- A live holder as the port describes it.
local function holder_of(lock)
    local host, pid, program = card(lock.session)
    return {lock.owner, lock.caller, lock.session, host, pid, program, lock.fence, lock.granted_at, lock.ends_at}
end
