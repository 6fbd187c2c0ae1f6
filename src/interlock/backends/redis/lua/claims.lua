-- Claims. What is kept, below the namespace's prefix:
--   claim:KEY        one key's claim, through all its attempts
--   claims           every key that is claimed, in the order of names
--   claims_until     the same keys by when they need not be kept any more
-- A claim whose time to be kept is over is as good as absent until it is removed.
local IN_PROGRESS, DONE, FAILED = 'in progress', 'done', 'failed'
local FIELDS = {
    'state', 'attempt', 'fence', 'owner', 'session', 'host', 'pid', 'program', 'claimed_at', 'lease_until', 'keep',
    'settled_at', 'retry_at', 'error', 'result', 'kept_until',
}
local NUMBERS = {'attempt', 'fence', 'claimed_at', 'lease_until', 'keep', 'settled_at', 'retry_at', 'kept_until'}

local function remove_claim(key)
    call('DEL', prefix .. 'claim:' .. key)
    call('ZREM', prefix .. 'claims', key)
    call('ZREM', prefix .. 'claims_until', key)
end

-- The claim on a key, if it is still to be kept; ends_at is the earlier of its lease's and its session's end.
local function read_claim(key)
    local found = call('HMGET', prefix .. 'claim:' .. key, unpack(FIELDS))
    if not found[1] then
        return nil
    end
    local claim = {key = key}
    for i, name in ipairs(FIELDS) do
        claim[name] = found[i]
    end
    for _, name in ipairs(NUMBERS) do
        claim[name] = tonumber(claim[name] or nil)
    end
    if claim.kept_until <= now then
        return nil
    end
    if claim.state == IN_PROGRESS then
        local session_ends = alive_until(claim.session)
        claim.ends_at = math.min(claim.lease_until, session_ends > 0 and session_ends or claim.claimed_at)
        claim.live = claim.ends_at > now
    end
    return claim
end

-- Keep a claim until then.
local function keep_claim(key, kept_until)
    local text = int(kept_until)
    call('ZADD', prefix .. 'claims_until', text, key)
    return text
end

-- Hold a claim for a lease from now on; answers when that ends.
local function extend_claim(key, lease, keep)
    local lease_until = now + lease
    call('HSET', prefix .. 'claim:' .. key, 'lease_until', int(lease_until), 'keep', int(keep),
        'kept_until', keep_claim(key, lease_until + keep))
    return lease_until
end

-- How a claim stands, as the port describes it.
local function claim_view(claim)
    return {
        claim.key, claim.state, claim.attempt, claim.fence, claim.owner, claim.session, claim.host, claim.pid,
        claim.program, claim.claimed_at, claim.ends_at or false, claim.settled_at or false, claim.retry_at or false,
        claim.error or '', claim.result or false, claim.kept_until, now,
    }
end

-- What is known to one who does not hold the claim: who has it now, how it stands, why the own one was forgotten.
local function not_yours(claim, owner)
    return {0, claim and claim.owner or false, claim and claim.state or false,
        call('HGET', prefix .. 'forced', owner)}
end
