-- include: common claims
-- Delete at most ARGV[3] claims whose retention has ended; returns how many.
allow_when_out_of_memory()
local ended = call('ZRANGEBYSCORE', prefix .. 'claims_until', '-inf', int(now), 'LIMIT', 0, tonumber(ARGV[3]))
for _, key in ipairs(ended) do
    delete_claim(key)
end
return #ended
