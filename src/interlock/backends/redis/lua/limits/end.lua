-- Forget at most ARGV[4] of an ended session's reservations, and tell those behind them; answers how many.
write_when_full()
local session = ARGV[3]
if alive_until(session) > now then
    return 0
end
local dropped = drop_session(session, now, tonumber(ARGV[4]))
for _, r in ipairs(dropped) do
    for _, use in ipairs(r.uses) do
        pass_on(use[1], session, {})
    end
end
return #dropped
