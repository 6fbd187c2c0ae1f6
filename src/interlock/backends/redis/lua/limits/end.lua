-- include: common limits limit_cleanup
-- Delete at most ARGV[4] reservations of an ended session and notify the next waiters; returns how many.
allow_when_out_of_memory()
local session = ARGV[3]
if session_expiry(session) > now then
    return 0
end
local dropped = drop_session(session, now, tonumber(ARGV[4]))
for _, r in ipairs(dropped) do
    for _, use in ipairs(r.uses) do
        notify_next_waiters(use[1], session, {})
    end
end
return #dropped
