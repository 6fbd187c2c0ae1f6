-- Take a key from its holder, whoever it is, and tell it why. Answers the holder, or nothing if there was none.
write_when_full()
local key, why = ARGV[3], ARGV[4]

local lock = read_lock(key)
if not lock or not lock.live then
    return false
end
local holder = holder_of(lock)
call('HSET', prefix .. 'forced', lock.owner, why)
call('ZADD', prefix .. 'forced_at', int(now), lock.owner)
tell(lock.session, 'lost ' .. lock.owner .. ' ' .. why)
free(lock, why, now)
pass_on(key, '')
return holder
