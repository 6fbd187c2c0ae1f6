-- Held or awaited keys by name, those after ARGV[5], or just the one in ARGV[6], at most ARGV[3], each with its first
-- ARGV[4] waiters (empty: all). Looks at a bounded number of keys and waiters, so that nobody is held up. Changes nothing.
-- Answers {now, the key to go on after, if there may be more, views …}; a view is {key, holder, free since, waiters, how
-- many more}.
local most, first, after, AT_ONCE, ENTRIES = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], 1000, 10000
local entries = 0

local function waiters_of(key)
    local waiters, awaited, more = {}, false, 0
    for _, owner in ipairs(call('ZRANGE', prefix .. 'queue:' .. key, 0, -1)) do
        local w = read_waiter(owner)
        entries = entries + 1
        if w then
            awaited = awaited or w.live
            local host, pid, program = card(w.session)
            if not first or #waiters < first then
                waiters[#waiters + 1] = {
                    owner, w.caller, w.session, host, pid, program, w.asked_at, w.gives_up_at, w.live and 1 or 0,
                }
            else
                more = more + 1
            end
        end
    end
    return waiters, awaited, more
end

local views = {now, false}
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
for i, key in ipairs(call('ZRANGEBYLEX', prefix .. 'names', from, '+', 'LIMIT', 0, AT_ONCE)) do
    show(key)
    if #views - 2 >= most then
        return views
    end
    if entries >= ENTRIES or i == AT_ONCE then
        views[2] = key
        return views
    end
end
return views
