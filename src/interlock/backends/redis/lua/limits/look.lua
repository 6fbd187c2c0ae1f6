-- Limits in use by key, those after ARGV[4], or just the one in ARGV[5], at most ARGV[3]. Looks at a bounded number of keys
-- and reservations, so that nobody is held up. Answers {now, the key to go on after, if there may be more, views …}; a
-- view is {key, free since, started, waiting}, each reservation as the port describes it.
local most, AT_ONCE, ENTRIES = tonumber(ARGV[3]), 1000, 10000

drop_stale(1000)
local function user(r, key, at, started)
    local host, pid, program = card(r.session)
    for _, use in ipairs(r.uses) do
        if use[1] == key then
            return {
                r.owner, r.caller, r.session, host, pid, program, use[2], use[3], int(r.asked_at), at and int(at) or '',
                started and 1 or 0, r.waits == LINE and r.place or '',
            }
        end
    end
end

local function started_of(key)
    local started = {}
    local starts = call('ZRANGE', prefix .. 'limit_starts:' .. key, 0, -1, 'WITHSCORES')
    for i = 1, #starts, 2 do
        local s = cjson.decode(call('HGET', prefix .. 'limit_start:' .. key, starts[i]))
        if tonumber(starts[i + 1]) + tonumber(s.per) > now then
            started[#started + 1] = {
                starts[i], s.caller, s.session, s.host, s.pid, s.program, s.most, s.per, s.asked_at,
                int(tonumber(starts[i + 1])), 1, '',
            }
        end
    end
    for _, owner in ipairs(call('ZRANGE', prefix .. 'limit_at_work:' .. key, 0, -1)) do
        local r = read_reservation(owner)
        local one = r and user(r, key, r.at, true)
        if one and one[8] == '0' then
            started[#started + 1] = one
        end
    end
    return started
end

local function waiting_of(key)
    local waiting = {}
    for _, owner in ipairs(call('ZRANGE', prefix .. 'limit_uses:' .. key, 0, -1)) do
        local r = read_reservation(owner)
        if r and not r.started then
            waiting[#waiting + 1] = user(r, key, r.waits ~= LINE and r.at, false)
        end
    end
    return waiting
end

local from = ARGV[4] ~= '' and '(' .. ARGV[4] or '-'
local names = ARGV[5] and {ARGV[5]} or call('ZRANGEBYLEX', prefix .. 'limit_names', from, '+', 'LIMIT', 0, AT_ONCE)
local views, entries = {now, false}, 0
for i, key in ipairs(names) do
    bury(key)
    local started, waiting = started_of(key), waiting_of(key)
    entries = entries + #started + #waiting
    if #started > 0 or #waiting > 0 then
        local awaited = call('EXISTS', prefix .. 'limit_line:' .. key) == 1 and room_of(key) > 0
        views[#views + 1] = {key, awaited and free_since(key), started, waiting}
    end
    if #views - 2 >= most then
        return views
    end
    if not ARGV[5] and (entries >= ENTRIES or i == AT_ONCE) then
        views[2] = key
        return views
    end
end
return views
