-- include: common
-- Extend a live session; returns whether it was alive.
allow_when_out_of_memory()
local id = ARGV[3]
if session_expiry(id) <= now then
    return 0
end
call('ZADD', prefix .. 'sessions', int(now + tonumber(ARGV[4])), id)
return 1
