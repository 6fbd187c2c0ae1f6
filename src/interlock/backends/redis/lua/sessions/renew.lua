-- Let a live session live on; answers whether it was alive.
write_when_full()
local id = ARGV[3]
if alive_until(id) <= now then
    return 0
end
call('ZADD', prefix .. 'sessions', int(now + tonumber(ARGV[4])), id)
return 1
