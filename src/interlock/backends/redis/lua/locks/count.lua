-- include: common
-- Count the locks that live sessions hold and wait for, each up to ARGV[3]. Read-only.
local limit, held, waiting = tonumber(ARGV[3]), 0, 0
for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. 'sessions', '(' .. int(now), '+inf', 'LIMIT', 0, 1000)) do
    held = held + call('HLEN', prefix .. 'holds:' .. id)
    waiting = waiting + call('HLEN', prefix .. 'queues:' .. id)
end
return {now, math.min(held, limit), math.min(waiting, limit)}
