-- include: common locks
-- List locks that are held or waited for, by name: those after ARGV[5], or only ARGV[6], at most ARGV[3], each with its
-- first ARGV[4] waiters (empty: all). HandlerVersion a bounded number of locks and waiters, so that the server stays responsive.
-- Read-only. Returns {now, the key to continue after if there may be more, views…}; a view is {key, holder, free since,
-- waiters, number of further waiters}.
local limit, max_waiters, after = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local MAX_KEYS, MAX_ENTRIES = 1000, 10000
local entries = 0

local function waiters_of(key)
    local waiters, awaited, more = {}, false, 0
    for _, owner in ipairs(call('ZRANGE', prefix .. 'queue:' .. key, 0, -1)) do
        local w = read_waiter(owner)
        entries = entries + 1
        if w then
            awaited = awaited or w.live
            local host, pid, program = session_details(w.session)
            if not max_waiters or #waiters < max_waiters then
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
local function add_view(key)
    local lock = read_lock(key)
    if lock then
        local waiters, awaited, more = waiters_of(key)
        if lock.live or awaited then
            views[#views + 1] = {key, lock.live and holder_of(lock), not lock.live and lock.free_since, waiters, more}
        end
    end
end

if ARGV[6] then
    add_view(ARGV[6])
    return views
end
local from = after ~= '' and '(' .. after or '-'
for i, key in ipairs(call('ZRANGEBYLEX', prefix .. 'names', from, '+', 'LIMIT', 0, MAX_KEYS)) do
    add_view(key)
    if #views - 2 >= limit then
        return views
    end
    if entries >= MAX_ENTRIES or i == MAX_KEYS then
        views[2] = key
        return views
    end
end
return views
