-- include: common claims
-- Claim a key if it is available. Returns {1 claimed, fence, expiry, attempt}, {2 known, view} or {3 session ended}.
local key, owner, session, lease, keep = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])

if session_expiry(session) <= now then
    return {3}
end
local claim = read_claim(key)
if claim then
    if claim.live and claim.owner == owner then
        return {1, claim.fence, extend_claim(key, lease, keep), claim.attempt}
    end
    local due = claim.state == FAILED and claim.retry_at <= now
    if not due and (claim.live or claim.state ~= IN_PROGRESS) then
        return {2, claim_view(claim)}
    end
else
    call('DEL', prefix .. 'claim:' .. key) -- one whose retention has ended
end
local fence, fence_text, now_text = next_fence()
local attempt = (claim and claim.attempt or 0) + 1
local host, pid, program = session_details(session)
local name = prefix .. 'claim:' .. key
call('HDEL', name, 'finished_at', 'retry_at', 'error', 'result')
call('HSET', name, 'state', IN_PROGRESS, 'attempt', attempt, 'fence', fence_text, 'owner', owner, 'session', session,
    'host', host, 'pid', pid, 'program', program, 'claimed_at', now_text)
call('ZADD', prefix .. 'claims', 0, key)
return {1, fence, extend_claim(key, lease, keep), attempt}
