-- include: common claims
-- Delete a claim and notify its owner. Returns its view, or nothing if there was none.
allow_when_out_of_memory()
local key, why = ARGV[3], ARGV[4]

local claim = read_claim(key)
if not claim then
    return false
end
delete_claim(key)
if claim.state == IN_PROGRESS then
    call('HSET', prefix .. 'forced', claim.owner, why)
    call('ZADD', prefix .. 'forced_at', int(now), claim.owner)
    notify(claim.session, 'lost ' .. claim.owner .. ' ' .. why)
end
return claim_view(claim)
