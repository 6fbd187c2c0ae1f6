-- Forget at most about ARGV[3] reservations of ended sessions or that nobody comes for, and starts that count no more.
write_when_full()
local most = tonumber(ARGV[3])
local swept = drop_stale(most)
for _, session in ipairs(call('ZRANGEBYSCORE', prefix .. 'sessions', '-inf', int(now), 'LIMIT', 0, 1000)) do
    if swept < most then
        swept = swept + #drop_session(session, alive_until(session), most - swept)
    end
end
for _, key in ipairs(call('ZRANGEBYSCORE', prefix .. 'limit_counts', '-inf', int(now), 'LIMIT', 0, most)) do
    if swept < most then
        swept = swept + math.max(1, forget_starts(key, most - swept))
        forget_if_idle(key)
    end
end
return swept
