-- How many keys the sessions that live hold and wait for, each counted up to ARGV[3]. Changes nothing.
local most, held, waiting = tonumber(ARGV[3]), 0, 0
for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. 'sessions', '(' .. int(now), '+inf', 'LIMIT', 0, 1000)) do
    held = held + call('HLEN', prefix .. 'holds:' .. id)
    waiting = waiting + call('HLEN', prefix .. 'queues:' .. id)
end
return {now, math.min(held, most), math.min(waiting, most)}
