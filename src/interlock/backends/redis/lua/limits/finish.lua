-- include: common limits limit_cleanup
-- Finish a reservation and notify the next waiters. Returns {known, started, next owners of the same session}.
allow_when_out_of_memory()
local session, owner = ARGV[3], ARGV[4]

local r = read_reservation(owner)
if not r or r.session ~= session then
    return {0, 0, {}}
end
local live = session_expiry(session) > now and (r.started or math.max(r.last_asked, r.at) + STALE >= now)
drop(r, now)
local own = {}
for _, use in ipairs(r.uses) do
    notify_next_waiters(use[1], session, own)
end
if not live then
    return {0, 0, {}}
end
local next_owners = {}
for i, next_owner in ipairs(own) do
    next_owners[i] = next_owner
end
return {1, r.started and 1 or 0, next_owners}
