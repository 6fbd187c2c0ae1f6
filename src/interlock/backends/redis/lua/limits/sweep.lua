-- include: common limits limit_cleanup
-- Delete about ARGV[3] abandoned reservations, reservations of ended sessions and starts that no longer count.
allow_when_out_of_memory()
local limit = tonumber(ARGV[3])
local swept = drop_stale(limit)
for _, session in ipairs(call('ZRANGEBYSCORE', prefix .. 'sessions', '-inf', int(now), 'LIMIT', 0, 1000)) do
    if swept < limit then
        swept = swept + #drop_session(session, session_expiry(session), limit - swept)
    end
end
for _, key in ipairs(call('ZRANGEBYSCORE', prefix .. 'limit_start_expiry', '-inf', int(now), 'LIMIT', 0, limit)) do
    if swept < limit then
        swept = swept + math.max(1, forget_starts(key, limit - swept))
        forget_if_idle(key)
    end
end
return swept
