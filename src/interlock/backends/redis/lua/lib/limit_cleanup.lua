-- Removal of reservations and starts, and notification of the next waiters.

local function decrement(name, field)
    if call('HINCRBY', name, field, -1) <= 0 then
        call('HDEL', name, field)
    end
end

local function forget_if_idle(key)
    if call('EXISTS', prefix .. 'limit_uses:' .. key, prefix .. 'limit_starts:' .. key) == 0 then
        call('DEL', prefix .. 'limit_free:' .. key)
        call('ZREM', prefix .. 'limit_names', key)
        call('ZREM', prefix .. 'limit_start_expiry', key)
    end
end

-- Delete starts that no longer count, oldest first, at most so many; returns how many.
local function forget_starts(key, count)
    local starts, details = prefix .. 'limit_starts:' .. key, prefix .. 'limit_start:' .. key
    for forgotten = 0, count - 1 do
        local oldest = call('ZRANGE', starts, 0, 0)[1]
        if not oldest then
            call('ZREM', prefix .. 'limit_start_expiry', key)
            return forgotten
        end
        local counts_until = cjson.decode(call('HGET', details, oldest)).counts_until
        if tonumber(counts_until) > now then
            call('ZADD', prefix .. 'limit_start_expiry', counts_until, key)
            return forgotten
        end
        call('ZREM', starts, oldest)
        call('HDEL', details, oldest)
    end
    return count
end

-- Delete a reservation. Slots that this frees count as free since `at`.
local function drop(r, at)
    call('DEL', prefix .. 'reservation:' .. r.owner)
    call('SREM', prefix .. 'reservations:' .. r.session, r.owner)
    call('ZREM', prefix .. 'limit_stale', r.owner)
    for _, use in ipairs(r.uses) do
        local key = use[1]
        local had_free_slot = free_slots(key) > 0
        call('ZREM', prefix .. 'limit_uses:' .. key, r.owner)
        call('ZREM', prefix .. 'limit_started:' .. key, r.owner)
        call('ZREM', prefix .. 'limit_queue:' .. key, r.owner)
        call('ZREM', prefix .. 'limit_planned:' .. key, r.owner)
        decrement(prefix .. 'limit_sessions:' .. key, r.session)
        decrement(prefix .. 'limit_quotas:' .. key, quota_text(use[2], use[3]))
        if not had_free_slot and free_slots(key) > 0 then
            call('SET', prefix .. 'limit_free:' .. key, int(at))
        end
        forget_if_idle(key)
    end
end

-- Delete a session's reservations, at most so many if count is given; returns them.
local function drop_session(session, at, count)
    local dropped = {}
    for _, owner in ipairs(call('SMEMBERS', prefix .. 'reservations:' .. session)) do
        if count and #dropped >= count then
            break
        end
        local r = read_reservation(owner)
        if r then
            drop(r, at)
            dropped[#dropped + 1] = r
        else
            call('SREM', prefix .. 'reservations:' .. session, owner)
        end
    end
    return dropped
end

-- Delete abandoned reservations, at most so many; returns how many. Those that are left still count as waiting, which
-- delays others for a while but lets none start too early.
local function drop_stale(count)
    local stale = call('ZRANGEBYSCORE', prefix .. 'limit_stale', '-inf', '(' .. int(now), 'LIMIT', 0, count)
    for _, owner in ipairs(stale) do
        local r = read_reservation(owner)
        if r then
            drop(r, now)
        else
            call('ZREM', prefix .. 'limit_stale', owner)
        end
    end
    return #stale
end

-- Delete a limit's reservations whose sessions have expired, in the order in which they expired. Returns when the first of
-- the live sessions expires.
local function drop_dead_holders(key)
    local dead, first_expiry = {}, math.huge
    for _, session in ipairs(call('HKEYS', prefix .. 'limit_sessions:' .. key)) do
        local expires_at = session_expiry(session)
        if expires_at <= now then
            dead[#dead + 1] = session
        else
            first_expiry = math.min(first_expiry, expires_at)
        end
    end
    table.sort(dead, function(one, other) return session_expiry(one) < session_expiry(other) end)
    for _, session in ipairs(dead) do
        drop_session(session, session_expiry(session))
    end
    return first_expiry
end

-- Notify the first waiters of a limit, one per free slot. Those of the releasing session are added to `own` instead.
local function notify_next_waiters(key, releasing_session, own)
    drop_dead_holders(key)
    local queue = prefix .. 'limit_queue:' .. key
    local free = math.min(free_slots(key), call('ZCARD', queue))
    if free > 0 then
        for _, owner in ipairs(call('ZRANGE', queue, 0, free - 1)) do
            local session = call('HGET', prefix .. 'reservation:' .. owner, 'session')
            if session == releasing_session then
                own[owner] = true
                own[#own + 1] = owner
            else
                notify(session, 'turn ' .. owner)
            end
        end
    end
end
