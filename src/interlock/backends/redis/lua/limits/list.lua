-- include: common limits limit_cleanup
-- List limits in use by key: those after ARGV[4], or only ARGV[5], at most ARGV[3]. HandlerVersion a bounded number of limits and
-- reservations, so that the server stays responsive. Returns {now, the key to continue after if there may be more, views…};
-- a view is {key, free since, started, waiting}, each reservation in the order of the port's LimitUser.
local limit, MAX_KEYS, MAX_ENTRIES = tonumber(ARGV[3]), 1000, 10000

drop_stale(1000)
local function user(r, key, at, started)
    local host, pid, program = session_details(r.session)
    for _, use in ipairs(r.uses) do
        if use[1] == key then
            return {
                r.owner, r.caller, r.session, host, pid, program, use[2], use[3], int(r.asked_at), at and int(at) or '',
                started and 1 or 0, r.waits == WAITS_FOR_SLOT and r.waits_for or '',
            }
        end
    end
end

local function started_under(key)
    local started = {}
    local starts = call('ZRANGE', prefix .. 'limit_starts:' .. key, 0, -1, 'WITHSCORES')
    for i = 1, #starts, 2 do
        local s = cjson.decode(call('HGET', prefix .. 'limit_start:' .. key, starts[i]))
        if tonumber(starts[i + 1]) + tonumber(s.per) > now then
            started[#started + 1] = {
                starts[i], s.caller, s.session, s.host, s.pid, s.program, s.max_count, s.per, s.asked_at,
                int(tonumber(starts[i + 1])), 1, '',
            }
        end
    end
    for _, owner in ipairs(call('ZRANGE', prefix .. 'limit_started:' .. key, 0, -1)) do
        local r = read_reservation(owner)
        local one = r and user(r, key, r.at, true)
        if one and one[8] == '0' then
            started[#started + 1] = one
        end
    end
    return started
end

local function waiting_under(key)
    local waiting = {}
    for _, owner in ipairs(call('ZRANGE', prefix .. 'limit_uses:' .. key, 0, -1)) do
        local r = read_reservation(owner)
        if r and not r.started then
            waiting[#waiting + 1] = user(r, key, r.waits ~= WAITS_FOR_SLOT and r.at, false)
        end
    end
    return waiting
end

local from = ARGV[4] ~= '' and '(' .. ARGV[4] or '-'
local names = ARGV[5] and {ARGV[5]} or call('ZRANGEBYLEX', prefix .. 'limit_names', from, '+', 'LIMIT', 0, MAX_KEYS)
local views, entries = {now, false}, 0
for i, key in ipairs(names) do
    drop_dead_holders(key)
    local started, waiting = started_under(key), waiting_under(key)
    entries = entries + #started + #waiting
    if #started > 0 or #waiting > 0 then
        local awaited = call('EXISTS', prefix .. 'limit_queue:' .. key) == 1 and free_slots(key) > 0
        views[#views + 1] = {key, awaited and free_since(key), started, waiting}
    end
    if #views - 2 >= limit then
        return views
    end
    if not ARGV[5] and (entries >= MAX_ENTRIES or i == MAX_KEYS) then
        views[2] = key
        return views
    end
end
return views
