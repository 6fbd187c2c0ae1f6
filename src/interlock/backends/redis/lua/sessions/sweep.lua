-- Remove a bounded number of traces of sessions that ended more than an hour ago, and of leases taken by force then.
write_when_full()
local most = tonumber(ARGV[3])
local long_ago = int(now - 3600 * 1000000)
local swept = 0
for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. 'sessions', '-inf', '(' .. long_ago, 'LIMIT', 0, 100)) do
    swept = swept + clear(id, most)
    if call('EXISTS', prefix .. 'holds:' .. id, prefix .. 'queues:' .. id, prefix .. 'reserves:' .. id) == 0 then
        call('DEL', prefix .. 'session:' .. id)
        call('ZREM', prefix .. 'sessions', id)
        swept = swept + 1
    end
    if swept >= most then
        return swept
    end
end
for _, owner in ipairs(call('ZRANGEBYSCORE', prefix .. 'forced_at', '-inf', '(' .. long_ago, 'LIMIT', 0, most)) do
    call('HDEL', prefix .. 'forced', owner)
    call('ZREM', prefix .. 'forced_at', owner)
    swept = swept + 1
end
return swept
