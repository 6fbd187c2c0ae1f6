-- include: common locks
-- Extend live leases: from ARGV[3] on key, owner and ttl of each. Returns {expiry} or {0, why not} for each.
allow_when_out_of_memory()
local renewed = {}
for i = 3, #ARGV, 3 do
    local key, owner = ARGV[i], ARGV[i + 1]
    local lock = read_lock(key)
    if lock and lock.live and lock.owner == owner then
        local expires_at = now + tonumber(ARGV[i + 2])
        call('HSET', prefix .. 'lock:' .. key, 'expires_at', int(expires_at))
        renewed[#renewed + 1] = {expires_at}
    else
        renewed[#renewed + 1] = {0, why_ended(key, owner)}
    end
end
return renewed
