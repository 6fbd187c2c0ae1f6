-- include: common claims
-- Finish a claim as done or failed, if the owner still has it. Returns {1}, else {0, current owner, state, why forgotten}.
-- ARGV[6] is the result: empty for none, else '=' and the text.
allow_when_out_of_memory()
local key, owner, state, result = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local message, retry_in, keep = ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])

local claim = read_claim(key)
if not claim or claim.owner ~= owner or (claim.state ~= IN_PROGRESS and claim.state ~= state) then
    return refusal(claim, owner)
end
if claim.state == IN_PROGRESS then
    local name = prefix .. 'claim:' .. key
    call('HSET', name, 'state', state, 'finished_at', int(now))
    if state == FAILED then
        call('HSET', name, 'retry_at', int(now + retry_in), 'error', message,
            'kept_until', keep_claim_until(key, now + retry_in + keep))
    else
        call('HSET', name, 'kept_until', keep_claim_until(key, now + keep))
        if result ~= '' then
            call('HSET', name, 'result', string.sub(result, 2))
        end
    end
end
return {1}
