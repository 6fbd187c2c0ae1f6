-- Remove at most ARGV[3] claims whose time to be kept is over; answers how many.
write_when_full()
local over = call('ZRANGEBYSCORE', prefix .. 'claims_until', '-inf', int(now), 'LIMIT', 0, tonumber(ARGV[3]))
for _, key in ipairs(over) do
    remove_claim(key)
end
return #over
