-- Remove a claim and tell its holder why. Answers its view, or nothing if there was none.
write_when_full()
local key, why = ARGV[3], ARGV[4]

local claim = read_claim(key)
if not claim then
    return false
end
remove_claim(key)
if claim.state == IN_PROGRESS then
    call('HSET', prefix .. 'forced', claim.owner, why)
    call('ZADD', prefix .. 'forced_at', int(now), claim.owner)
    tell(claim.session, 'lost ' .. claim.owner .. ' ' .. why)
end
return claim_view(claim)
