-- Held or awaited keys by name, or just the one in ARGV[4], at most ARGV[3]. Changes nothing. Answers
-- {now, {key, holder, free since, waiters} …}.
local most, AT_ONCE, FAR = tonumber(ARGV[3]), 1000, 10000

local function waiters_of(key)
    local waiters, awaited = {}, false
    for _, owner in ipairs(call('ZRANGE', prefix .. 'queue:' .. key, 0, -1)) do
        local w = read_waiter(owner)
        if w then
            awaited = awaited or w.live
            local host, pid, program = card(w.session)
            waiters[#waiters + 1] = {
                owner, w.party, w.session, host, pid, program, w.asked_at, w.gives_up_at, w.live and 1 or 0,
            }
        end
    end
    return waiters, awaited
end

local views = {now}
local function show(key)
    local lock = read_lock(key)
    if lock then
        local waiters, awaited = waiters_of(key)
        if lock.live or awaited then
            views[#views + 1] = {key, lock.live and holder_of(lock), not lock.live and lock.free_since, waiters}
        end
    end
end

if ARGV[4] then
    show(ARGV[4])
    return views
end
for at = 0, FAR, AT_ONCE do
    local names = call('ZRANGE', prefix .. 'names', at, at + AT_ONCE - 1)
    for _, key in ipairs(names) do
        if #views > most then
            return views
        end
        show(key)
    end
    if #names < AT_ONCE then
        break
    end
end
return views
