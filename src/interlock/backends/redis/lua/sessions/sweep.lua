-- include: common locks session_cleanup
-- Delete a bounded number of sessions that ended more than an hour ago, and of force releases from before then.
allow_when_out_of_memory()
local limit = tonumber(ARGV[3])
local an_hour_ago = int(now - 3600 * 1000000)
local swept = 0
for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. 'sessions', '-inf', '(' .. an_hour_ago, 'LIMIT', 0, 100)) do
    swept = swept + free_session(id, limit)
    if call('EXISTS', prefix .. 'holds:' .. id, prefix .. 'queues:' .. id, prefix .. 'reservations:' .. id) == 0 then
        call('DEL', prefix .. 'session:' .. id)
        call('ZREM', prefix .. 'sessions', id)
        swept = swept + 1
    end
    if swept >= limit then
        return swept
    end
end
for _, owner in ipairs(call('ZRANGEBYSCORE', prefix .. 'forced_at', '-inf', '(' .. an_hour_ago, 'LIMIT', 0, limit)) do
    call('HDEL', prefix .. 'forced', owner)
    call('ZREM', prefix .. 'forced_at', owner)
    swept = swept + 1
end
return swept
