-- include: common limits limit_cleanup
-- Return the waiting reservations of a session that should ask now: those whose turn may have come, and those named from
-- ARGV[4] on that do not exist. Returns {microseconds until the next check, or -1, owners}.
local session = ARGV[3]

drop_stale(1000)
local found, check_in = {}, math.huge
local alive = session_expiry(session) > now
for i = 4, #ARGV do
    if not alive or call('SISMEMBER', prefix .. 'reservations:' .. session, ARGV[i]) == 0 then
        found[#found + 1] = ARGV[i]
    end
end

-- Read the slots of a limit, once.
local slots_of = {}
local function read_slots(key)
    if not slots_of[key] then
        local first_expiry = drop_dead_holders(key)
        slots_of[key] = {ends_at = first_expiry, free = free_slots(key), free_since = free_since(key)}
    end
    return slots_of[key]
end

for _, owner in ipairs(alive and call('SMEMBERS', prefix .. 'reservations:' .. session) or {}) do
    local f = call('HMGET', prefix .. 'reservation:' .. owner, 'at', 'started', 'waits', 'waits_for')
    if f[1] and f[2] ~= '1' then
        local due_in = tonumber(f[1]) - now
        if f[3] == WAITS_FOR_SLOT then
            local slots = read_slots(f[4])
            local ahead = call('ZRANK', prefix .. 'limit_queue:' .. f[4], owner) or 0
            if ahead < slots.free then
                due_in = 0
            else
                due_in = slots.ends_at - now
                if slots.free > 0 then
                    due_in = math.min(due_in, slots.free_since + (ahead - slots.free + 1) * TURN - now)
                end
            end
        end
        if due_in <= 0 then
            found[#found + 1] = owner
        else
            check_in = math.min(check_in, due_in)
        end
    end
end
return {check_in < math.huge and check_in or -1, found}
