-- Mark a claim as done or failed, if the owner has it and nobody claimed it since. Answers {1}, else
-- {0, owner now, state, why forgotten}. ARGV[6] is what to leave: '' for nothing, else a mark and the result.
write_when_full()
local key, owner, state, result = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local why, retry_in, keep = ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])

local claim = read_claim(key)
if not claim or claim.owner ~= owner or (claim.state ~= IN_PROGRESS and claim.state ~= state) then
    return not_yours(claim, owner)
end
if claim.state == IN_PROGRESS then
    local name = prefix .. 'claim:' .. key
    call('HSET', name, 'state', state, 'settled_at', int(now))
    if state == FAILED then
        call('HSET', name, 'retry_at', int(now + retry_in), 'error', why,
            'kept_until', keep_claim(key, now + retry_in + keep))
    else
        call('HSET', name, 'kept_until', keep_claim(key, now + keep))
        if result ~= '' then
            call('HSET', name, 'result', string.sub(result, 2))
        end
    end
end
return {1}
