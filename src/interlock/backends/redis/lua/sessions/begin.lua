-- include: common
-- Start a session. A session that is already known, expired or not, stays as it is.
local id = ARGV[3]
if call('ZADD', prefix .. 'sessions', 'NX', int(now + tonumber(ARGV[7])), id) == 1 then
    call('HSET', prefix .. 'session:' .. id, 'host', ARGV[4], 'pid', ARGV[5], 'program', ARGV[6])
end
return 1
