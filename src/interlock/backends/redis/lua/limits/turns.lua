-- Which waiting reservations of a session should ask now: those whose turn may have come, and those named from ARGV[4] on
-- that are not known any more. Answers {microseconds to look again in, or -1, owners}.
local session = ARGV[3]

drop_stale(1000)
local found, look_again = {}, math.huge
local alive = alive_until(session) > now
for i = 4, #ARGV do
    if not alive or call('SISMEMBER', prefix .. 'reserves:' .. session, ARGV[i]) == 0 then
        found[#found + 1] = ARGV[i]
    end
end

-- How a key's line stands; looked at once.
local lines = {}
local function line_of(key)
    if not lines[key] then
        local first_end = bury(key)
        lines[key] = {ends_at = first_end, free = room_of(key), free_since = free_since(key)}
    end
    return lines[key]
end

for _, owner in ipairs(alive and call('SMEMBERS', prefix .. 'reserves:' .. session) or {}) do
    local f = call('HMGET', prefix .. 'reservation:' .. owner, 'at', 'started', 'waits', 'place')
    if f[1] and f[2] ~= '1' then
        local due_in = tonumber(f[1]) - now
        if f[3] == LINE then
            local line = line_of(f[4])
            local ahead = call('ZRANK', prefix .. 'limit_line:' .. f[4], owner) or 0
            if ahead < line.free then
                due_in = 0
            else
                due_in = line.ends_at - now
                if line.free > 0 then
                    due_in = math.min(due_in, line.free_since + (ahead - line.free + 1) * TURN - now)
                end
            end
        end
        if due_in <= 0 then
            found[#found + 1] = owner
        else
            look_again = math.min(look_again, due_in)
        end
    end
end
return {look_again < math.huge and look_again or -1, found}
