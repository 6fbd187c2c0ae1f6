-- Give live claims their lease again: from ARGV[3] on key, owner and lease of each. Answers {1, expiry} for those, else
-- {0, owner now, state, why forgotten}.
write_when_full()
local renewed = {}
for i = 3, #ARGV, 3 do
    local key, owner = ARGV[i], ARGV[i + 1]
    local claim = read_claim(key)
    if claim and claim.live and claim.owner == owner then
        renewed[#renewed + 1] = {1, extend_claim(key, tonumber(ARGV[i + 2]), claim.keep)}
    else
        renewed[#renewed + 1] = not_yours(claim, owner)
    end
end
return renewed
