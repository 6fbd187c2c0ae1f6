-- include: common limits limit_cleanup
-- Return one key and the owner of every reservation that a session has not finished, flat.
local session = ARGV[3]
local found = {}
drop_stale(1000)
if session_expiry(session) > now then
    for _, owner in ipairs(call('SMEMBERS', prefix .. 'reservations:' .. session)) do
        local r = read_reservation(owner)
        if r then
            found[#found + 1] = r.uses[1][1]
            found[#found + 1] = owner
        end
    end
end
return found
