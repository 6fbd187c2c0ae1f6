-- include: common claims
-- Extend live claims: from ARGV[3] on key, owner and lease of each. Returns {1, expiry} for each that was extended, else
-- {0, current owner, state, why forgotten}.
allow_when_out_of_memory()
local renewed = {}
for i = 3, #ARGV, 3 do
    local key, owner = ARGV[i], ARGV[i + 1]
    local claim = read_claim(key)
    if claim and claim.live and claim.owner == owner then
        renewed[#renewed + 1] = {1, extend_claim(key, tonumber(ARGV[i + 2]), claim.keep)}
    else
        renewed[#renewed + 1] = refusal(claim, owner)
    end
end
return renewed
