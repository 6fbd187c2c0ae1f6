-- include: common locks
-- Return the waiters of a session that should ask now: those whose turn may have come, and those named from ARGV[5] on
-- that are in no queue. Returns {microseconds until the next check, or -1, owners}. Read-only.
local session, turn = ARGV[3], tonumber(ARGV[4])

local found, check_in = {}, -1
local function check_within(microseconds)
    microseconds = math.max(0, microseconds)
    if check_in < 0 or microseconds < check_in then
        check_in = microseconds
    end
end

for i = 5, #ARGV do
    if call('EXISTS', prefix .. 'waiter:' .. ARGV[i]) == 0 then
        found[#found + 1] = ARGV[i]
    end
end

-- Add the session's waiters whose turn has come at a free lock, and note when the next turn starts.
local function add_turns(lock)
    local ahead = 0
    for _, owner in ipairs(call('ZRANGE', prefix .. 'queue:' .. lock.key, 0, -1)) do
        local waiter = read_waiter(owner)
        if waiter and waiter.live then
            local due_in = lock.free_since + ahead * turn - now
            if waiter.session == session then
                check_within(due_in)
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
local queued = call('HGETALL', prefix .. 'queues:' .. session)
for i = 1, #queued, 2 do
    local key = queued[i + 1]
    local waiter = not seen[key] and read_waiter(queued[i])
    if waiter and waiter.live then
        seen[key] = true
        local lock = read_lock(key)
        if lock and lock.live then
            check_within(lock.ends_at - now)
        elseif lock then
            add_turns(lock)
        end
    end
end
return {check_in, found}
