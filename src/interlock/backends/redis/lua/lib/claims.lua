-- Claims. Keys below the namespace's prefix:
--   claim:KEY        the claim on one key, through all its attempts
--   claims           every claimed key, by name
--   claims_until     the same keys by when their retention ends
-- A claim whose retention has ended counts as absent until it is deleted.
local IN_PROGRESS, DONE, FAILED = 'in progress', 'done', 'failed'
local FIELDS = {
    'state', 'attempt', 'fence', 'owner', 'session', 'host', 'pid', 'program', 'claimed_at', 'lease_until', 'keep',
    'finished_at', 'retry_at', 'error', 'result', 'kept_until',
}
local NUMBERS = {'attempt', 'fence', 'claimed_at', 'lease_until', 'keep', 'finished_at', 'retry_at', 'kept_until'}

local function delete_claim(key)
    call('DEL', prefix .. 'claim:' .. key)
    call('ZREM', prefix .. 'claims', key)
    call('ZREM', prefix .. 'claims_until', key)
end

-- Read the claim on a key; nil if its retention has ended. ends_at is when its lease or its session expires.
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
        local session_ends = session_expiry(claim.session)
        claim.ends_at = math.min(claim.lease_until, session_ends > 0 and session_ends or claim.claimed_at)
        claim.live = claim.ends_at > now
    end
    return claim
end

-- Set until when a claim is kept; returns the time as text.
local function keep_claim_until(key, kept_until)
    local text = int(kept_until)
    call('ZADD', prefix .. 'claims_until', text, key)
    return text
end

-- Start a claim's lease anew; returns when it expires.
local function extend_claim(key, lease, keep)
    local lease_until = now + lease
    call('HSET', prefix .. 'claim:' .. key, 'lease_until', int(lease_until), 'keep', int(keep),
        'kept_until', keep_claim_until(key, lease_until + keep))
    return lease_until
end

-- Return a claim in the order of the port's ClaimView.
local function claim_view(claim)
    return {
        claim.key, claim.state, claim.attempt, claim.fence, claim.owner, claim.session, claim.host, claim.pid,
        claim.program, claim.claimed_at, claim.ends_at or false, claim.finished_at or false, claim.retry_at or false,
        claim.error or '', claim.result or false, claim.kept_until, now,
    }
end

-- The reply to an owner that does not hold the claim: {0, current owner, state, why its own claim was forgotten}.
local function refusal(claim, owner)
    return {0, claim and claim.owner or false, claim and claim.state or false,
        call('HGET', prefix .. 'forced', owner)}
end
