-- Held or awaited keys by name, those after ARGV[5], or just the one in ARGV[6], at most ARGV[3], each with its first
-- ARGV[4] waiters (empty: all). Changes nothing. Answers {now, {key, holder, free since, waiters, how many more} …}.
local most, first, after, AT_ONCE, FAR = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], 1000, 10000

local function waiters_of(key)
    local waiters, awaited, more = {}, false, 0
    for _, owner in ipairs(call('ZRANGE', prefix .. 'queue:' .. key, 0, -1)) do
        local w = read_waiter(owner)
        if w then
            awaited = awaited or w.live
            local host, pid, program = card(w.session)
            if not first or #waiters < first then
                waiters[#waiters + 1] = {
                    owner, w.party, w.session, host, pid, program, w.asked_at, w.gives_up_at, w.live and 1 or 0,
                }
            else
                more = more + 1
            end
        end
    end
    return waiters, awaited, more
end

local views = {now}
local function show(key)
    local lock = read_lock(key)
    if lock then
        local waiters, awaited, more = waiters_of(key)
        if lock.live or awaited then
            views[#views + 1] = {key, lock.live and holder_of(lock), not lock.live and lock.free_since, waiters, more}
        end
    end
end

if ARGV[6] then
    show(ARGV[6])
    return views
end
local from = after ~= '' and '(' .. after or '-'
for at = 0, FAR, AT_ONCE do
    local names = call('ZRANGEBYLEX', prefix .. 'names', from, '+', 'LIMIT', at, AT_ONCE)
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
