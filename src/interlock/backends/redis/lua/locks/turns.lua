-- Which waiters of a session should ask now: those whose turn may have come, and those named from ARGV[5] on that are
-- in no queue any more. Answers {seconds to look again in, or -1, owners}. Changes nothing.
local session, claim = ARGV[3], tonumber(ARGV[4])

local found, look_again = {}, -1
local function look_in(microseconds)
    microseconds = math.max(0, microseconds)
    if look_again < 0 or microseconds < look_again then
        look_again = microseconds
    end
end

for i = 5, #ARGV do
    if call('EXISTS', prefix .. 'waiter:' .. ARGV[i]) == 0 then
        found[#found + 1] = ARGV[i]
    end
end

-- Those of the session whose turn has come at a free key, and when the next one's comes.
local function look_at_queue(lock)
    local ahead = 0
    for _, owner in ipairs(call('ZRANGE', prefix .. 'queue:' .. lock.key, 0, -1)) do
        local waiter = read_waiter(owner)
        if waiter and waiter.live then
            local due_in = lock.free_since + ahead * claim - now
            if waiter.session == session then
                look_in(due_in)
                if due_in > 0 then
                    return
                end
                found[#found + 1] = owner
            end
            ahead = ahead + 1
        end
    end
end

local seen = {}
local places = call('HGETALL', prefix .. 'queues:' .. session)
for i = 1, #places, 2 do
    local key = places[i + 1]
    local waiter = not seen[key] and read_waiter(places[i])
    if waiter and waiter.live then
        seen[key] = true
        local lock = read_lock(key)
        if lock and lock.live then
            look_in(lock.ends_at - now)
        elseif lock then
            look_at_queue(lock)
        end
    end
end
return {look_again, found}
