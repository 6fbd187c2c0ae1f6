-- include: common
-- Return owner and key of everything that a session holds or waits for, flat.
local found = call('HGETALL', prefix .. 'holds:' .. ARGV[3])
for _, text in ipairs(call('HGETALL', prefix .. 'queues:' .. ARGV[3])) do
    found[#found + 1] = text
end
return found
