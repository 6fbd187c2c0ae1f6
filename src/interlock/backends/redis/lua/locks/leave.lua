-- include: common locks
-- Release a lease or leave the queue. Returns {held, why not, next owner}. If the next owner belongs to the releasing
-- session, it is granted the lock at once, and fence and expiry are appended: {held, why not, next, fence, expiry}.
allow_when_out_of_memory()
local key, owner, session = ARGV[3], ARGV[4], ARGV[5]

local lock = read_lock(key)
if not lock then
    return {0, why_ended(key, owner), false}
end
if lock.owner == owner then
    local held = lock.live
    if call('EXISTS', prefix .. 'queue:' .. key) == 0 then
        call('HDEL', prefix .. 'holds:' .. lock.session, owner)
        forget_lock(key)
        return held and {1} or {0, EXPIRED, false}
    end
    local first = held and first_live_waiter(key)
    free(lock, held and 'released' or EXPIRED, held and now or lock.free_since)
    if first and first.session == session then
        dequeue(key, first.owner)
        return {1, '', first.owner, grant(key, first.owner, first.caller, first.session, first.ttl)}
    end
    return {held and 1 or 0, held and '' or EXPIRED, notify_next_waiter(key, session)}
end
local why = why_ended(key, owner)
dequeue(key, owner)
if lock.live then
    -- A release of this session may have granted the lock to the holder and its reply may have been lost.
    return {0, why, lock.session == session and lock.owner}
end
free_if_expired(lock)
return {0, why, notify_next_waiter(key, session)}
