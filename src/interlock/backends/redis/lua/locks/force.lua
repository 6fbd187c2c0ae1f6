-- include: common locks
-- Force-release a lock and notify its holder. Returns the holder, or nothing if there was none.
allow_when_out_of_memory()
local key, why = ARGV[3], ARGV[4]

local lock = read_lock(key)
if not lock or not lock.live then
    return false
end
local holder = holder_of(lock)
call('HSET', prefix .. 'forced', lock.owner, why)
call('ZADD', prefix .. 'forced_at', int(now), lock.owner)
notify(lock.session, 'lost ' .. lock.owner .. ' ' .. why)
free(lock, why, now)
notify_next_waiter(key, '')
return holder
