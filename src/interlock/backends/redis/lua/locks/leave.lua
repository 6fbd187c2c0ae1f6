-- Give up a lease or a place in the queue. Answers whether it was held, why not, who is next, and if the next one is of
-- the leaver's own session, which hears of it first and for certain, its grant: {held, why, next, fence, expiry}.
write_when_full()
local key, owner, session = ARGV[3], ARGV[4], ARGV[5]

local lock = read_lock(key)
if not lock then
    return {0, why_ended(key, owner), false}
end
if lock.owner == owner then
    local held = lock.live
    if call('EXISTS', prefix .. 'queue:' .. key) == 0 then
        call('HDEL', prefix .. 'holds:' .. lock.session, owner)
        forget(key)
        return held and {1} or {0, EXPIRED, false}
    end
    local first = held and first_live(key)
    free(lock, held and 'released' or EXPIRED, held and now or lock.free_since)
    if first and first.session == session then
        dequeue(key, first.owner)
        return {1, '', first.owner, grant(key, first.owner, first.caller, first.session, first.ttl)}
    end
    return {held and 1 or 0, held and '' or EXPIRED, pass_on(key, session)}
end
local why = why_ended(key, owner)
dequeue(key, owner)
if lock.live then
    -- The holder may have been handed the key by a release of this session whose answer was lost.
    return {0, why, lock.session == session and lock.owner}
end
free_if_dead(lock)
return {0, why, pass_on(key, session)}
