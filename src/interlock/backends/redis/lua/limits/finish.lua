-- Free what a reservation had and tell those whose turn may have come. Answers {known, started, owners of the same
-- session}.
write_when_full()
local session, owner = ARGV[3], ARGV[4]

local r = read_reservation(owner)
if not r or r.session ~= session then
    return {0, 0, {}}
end
local live = alive_until(session) > now and (r.started or math.max(r.last_asked, r.at) + STALE >= now)
drop(r, now)
local own = {}
for _, use in ipairs(r.uses) do
    pass_on(use[1], session, own)
end
if not live then
    return {0, 0, {}}
end
local next_owners = {}
for i, next_owner in ipairs(own) do
    next_owners[i] = next_owner
end
return {1, r.started and 1 or 0, next_owners}
