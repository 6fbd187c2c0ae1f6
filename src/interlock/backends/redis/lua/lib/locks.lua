-- Locks. Keys below the namespace's prefix:
--   ticket           the last ticket of any queue
--   names            every lock that is held or waited for, by name
--   lock:KEY         the holder, or since when the lock has been free; exists while it is held or waited for
--   queue:KEY        the waiting owners, by ticket
--   waiter:OWNER     one waiter
--   waits:CALLER     the owners under which a caller waits
--   holds:SESSION    owner and key of everything a session holds
--   queues:SESSION   owner and key of everything it waits for
--   forced           why a lease was force-released, by owner; forced_at: when
local EXPIRED = 'it had expired'

-- Read a lock. owner is false while it is free; live says whether the lease is valid. Returns nil if the lock is neither
-- held nor waited for.
local function read_lock(key)
    local f = call('HMGET', prefix .. 'lock:' .. key,
        'owner', 'caller', 'session', 'fence', 'granted_at', 'expires_at', 'free_since')
    if f[1] then
        local granted_at, ends_at = tonumber(f[5]), math.min(tonumber(f[6]), session_expiry(f[3]))
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
        gives_up_at = gives_up_at, live = (not gives_up_at or gives_up_at > now) and session_expiry(f[3]) > now,
    }
end

-- Grant a free lock to an owner.
local function grant(key, owner, caller, session, ttl)
    local fence, fence_text, now_text = next_fence()
    local expires_at = now + ttl
    call('HSET', prefix .. 'lock:' .. key, 'owner', owner, 'caller', caller, 'session', session, 'fence', fence_text,
        'granted_at', now_text, 'expires_at', int(expires_at))
    call('HSET', prefix .. 'holds:' .. session, owner, key)
    call('ZADD', prefix .. 'names', 0, key)
    return fence, expires_at
end

-- End a lease. The lock is free for its queue from then on.
local function free(lock, why, at)
    local name = prefix .. 'lock:' .. lock.key
    call('HDEL', prefix .. 'holds:' .. lock.session, lock.owner)
    call('HDEL', name, 'owner')
    call('HSET', name, 'free_since', int(at), 'ended_owner', lock.owner, 'ended_why', why)
    lock.owner, lock.live, lock.free_since = false, false, at
end

-- End a lease that has expired.
local function free_if_expired(lock)
    if lock.owner and not lock.live then
        free(lock, EXPIRED, lock.free_since)
    end
end

local function forget_lock(key)
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

-- Return the first live waiter of a lock. Dead waiters before it are removed.
local function first_live_waiter(key)
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

-- Return the owner whose turn it is at a free lock, and notify it unless it belongs to the releasing session. Deletes the
-- lock if there are no waiters.
local function notify_next_waiter(key, releasing_session)
    local first = first_live_waiter(key)
    if not first then
        forget_lock(key)
        return false
    end
    if first.session ~= releasing_session then
        notify(first.session, 'turn ' .. first.owner)
    end
    return first.owner
end

-- Return why an owner's lease ended.
local function why_ended(key, owner)
    local ended = call('HMGET', prefix .. 'lock:' .. key, 'ended_owner', 'ended_why')
    if ended[1] == owner then
        return ended[2]
    end
    return call('HGET', prefix .. 'forced', owner) or EXPIRED
end

-- Return a live holder in the order of the port's Holder.
local function holder_of(lock)
    local host, pid, program = session_details(lock.session)
    return {lock.owner, lock.caller, lock.session, host, pid, program, lock.fence, lock.granted_at, lock.ends_at}
end
