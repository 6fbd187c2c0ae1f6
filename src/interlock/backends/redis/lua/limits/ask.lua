-- Make a reservation if it is not there yet, and start it if that was asked for (ARGV[6]) and its turn has come. From
-- ARGV[8] on key, most and per of each limit, in the order of keys. Answers {1, started, at, key, ahead, look again in,
-- differs}, with -1 for what is not known, {2 full, key} or {3 session ended}.
local owner, caller, session, start, full = ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1', tonumber(ARGV[7])

if alive_until(session) <= now then
    return {3}
end
drop_stale(1000)

local mine = read_reservation(owner)
local uses = mine and mine.uses
if not uses then
    uses = {}
    for i = 8, #ARGV, 3 do
        uses[#uses + 1] = {ARGV[i], ARGV[i + 1], ARGV[i + 2]}
    end
end

-- How a key stands for this reservation, the reservation itself not counted.
local function stand(use)
    local key = use[1]
    local first_end = bury(key)
    local line = prefix .. 'limit_line:' .. key
    local ahead = mine and call('ZRANK', line, owner)
    if not ahead then
        ahead = mine and call('ZCOUNT', line, '-inf', '(' .. mine.ticket) or call('ZCARD', line)
    end
    local known = figures_of(key, use[2], use[3])
    return {
        key = key, figures = known, slots = known.slots, ahead = ahead, ends_at = first_end,
        started = call('ZCARD', prefix .. 'limit_at_work:' .. key),
    }
end

local standings, differs = {}, ''
for i, use in ipairs(uses) do
    standings[i] = stand(use)
    if differs == '' and standings[i].figures.count > 1 then
        differs = use[1]
    end
end
if mine and mine.started then
    return {1, 1, mine.at, '', 0, -1, differs}
end
if not mine then
    for _, use in ipairs(uses) do
        if call('ZCARD', prefix .. 'limit_uses:' .. use[1]) >= full then
            return {2, use[1]}
        end
    end
end

-- Whether the starts that really were leave room for one now.
local function in_pace(standing)
    for _, pace in ipairs(standing.figures.paces) do
        local since = '(' .. int(now - pace.per)
        if call('ZCOUNT', prefix .. 'limit_starts:' .. standing.key, since, '+inf') >= pace.most then
            return false
        end
    end
    return true
end

-- Whether one that is new fits now for certain: nobody is planned near, and the starts leave room. The common case.
local function fits_now()
    for _, standing in ipairs(standings) do
        local longest = standing.figures.longest
        if longest > 0 then
            local plans = call('ZCOUNT', prefix .. 'limit_plans:' .. standing.key, '(' .. int(now - longest), '+inf')
            if plans > 0 or not in_pace(standing) then
                return false
            end
        end
    end
    return true
end

-- Starts after a time, and plans of those who asked before, sorted.
local function times_of(key, after)
    local times = {}
    local since = '(' .. int(after)
    local starts = call('ZRANGEBYSCORE', prefix .. 'limit_starts:' .. key, since, '+inf', 'WITHSCORES')
    for i = 2, #starts, 2 do
        times[#times + 1] = tonumber(starts[i])
    end
    local plans = call('ZRANGEBYSCORE', prefix .. 'limit_plans:' .. key, since, '+inf', 'WITHSCORES')
    for i = 1, #plans, 2 do
        local other = plans[i]
        local before = not mine
        if mine and other ~= owner then
            local ticket = call('ZSCORE', prefix .. 'limit_uses:' .. key, other)
            before = tonumber(ticket) < tonumber(mine.ticket)
        end
        if before then
            times[#times + 1] = tonumber(plans[i + 1])
        end
    end
    table.sort(times)
    return times
end

-- The first time from `at` on that makes no most + 1 times lie within less than per. A window that leaves no room leaves
-- none up to per after its first time, so the candidate moves there; windows passed once never matter again.
local function earliest_fit(times, pace, at)
    local first = 1
    while times[first] and times[first] <= at - pace.per do
        first = first + 1
    end
    while times[first + pace.most - 1] do
        local begins, ends = times[first], times[first + pace.most - 1]
        if math.max(ends, at) - math.min(begins, at) < pace.per then
            at = begins + pace.per
        elseif begins >= at then
            break
        end
        first = first + 1
    end
    return at
end

-- The first time from now on that fits every pace, and the key that asked for it last.
local function plan()
    local at, held_by, times = now, '', {}
    local moved = true
    while moved do
        moved = false
        for i, standing in ipairs(standings) do
            for _, pace in ipairs(standing.figures.paces) do
                times[i] = times[i] or times_of(standing.key, now - standing.figures.longest)
                local fit = earliest_fit(times[i], pace, at)
                if fit > at then
                    at, held_by, moved = fit, standing.key, true
                end
            end
        end
    end
    return at, held_by
end

local at, held_by = mine and mine.at, mine and mine.waits == TIME and mine.place or ''
if at and at <= now then
    for _, standing in ipairs(standings) do
        if not in_pace(standing) then
            at = nil
            break
        end
    end
end
if not at then
    if not mine and fits_now() then
        at = now
    else
        at, held_by = plan()
    end
end

local function store(started, waits, place)
    local name = prefix .. 'reservation:' .. owner
    if not mine then
        local ticket = int(call('INCR', prefix .. 'ticket'))
        mine = {ticket = ticket, asked_at = now, waits = NOT, place = ''}
        call('HSET', name, 'caller', caller, 'session', session, 'asked_at', int(now), 'uses', cjson.encode(uses),
            'ticket', ticket)
        call('SADD', prefix .. 'reserves:' .. session, owner)
        for _, use in ipairs(uses) do
            call('ZADD', prefix .. 'limit_uses:' .. use[1], ticket, owner)
            call('HINCRBY', prefix .. 'limit_sessions:' .. use[1], session, 1)
            call('HINCRBY', prefix .. 'limit_figures:' .. use[1], text_figure(use[2], use[3]), 1)
            call('ZADD', prefix .. 'limit_names', 0, use[1])
        end
    end
    call('HSET', name, 'last_asked', int(now), 'at', int(at), 'started', started and '1' or '0', 'waits', waits,
        'place', place)
    local left = mine.waits == LINE and mine.place ~= place and mine.place
    if left then
        call('ZREM', prefix .. 'limit_line:' .. left, owner)
    end
    if waits == LINE then
        call('ZADD', prefix .. 'limit_line:' .. place, mine.ticket, owner)
    end
    if started then
        call('ZREM', prefix .. 'limit_stale', owner)
    else
        call('ZADD', prefix .. 'limit_stale', int(math.max(now, at) + STALE), owner)
    end
    for i, use in ipairs(uses) do
        local key = use[1]
        if not started then
            call('ZADD', prefix .. 'limit_plans:' .. key, int(at), owner)
        else
            call('ZREM', prefix .. 'limit_plans:' .. key, owner)
            call('ZADD', prefix .. 'limit_at_work:' .. key, mine.ticket, owner)
            local longest = standings[i].figures.longest
            if longest > 0 then
                local host, pid, program = card(session)
                call('ZADD', prefix .. 'limit_starts:' .. key, int(now), owner)
                call('HSET', prefix .. 'limit_start:' .. key, owner, cjson.encode({
                    counts_until = int(now + longest), caller = caller, session = session, host = host, pid = pid,
                    program = program, most = use[2], per = use[3], asked_at = int(mine.asked_at),
                }))
                forget_starts(key, 10)
            end
        end
    end
    -- What was kept for it where it stood before is for those behind it.
    if left and not started then
        pass_on(left, '', {})
    end
end

if at > now then
    store(false, TIME, held_by)
    return {1, 0, at, held_by, 0, at - now, differs}
end
for _, standing in ipairs(standings) do
    if standing.slots then
        local free = standing.slots - standing.started
        local turn_at = math.huge
        if free > 0 then
            turn_at = standing.ahead < free and 0
                or free_since(standing.key) + (standing.ahead - free + 1) * TURN
        end
        if turn_at > now then
            store(false, LINE, standing.key)
            if free > 0 then
                pass_on(standing.key, '', {}) -- those ahead may not know that there is room
            end
            local look_again = math.max(0, math.min(standing.ends_at, turn_at) - now)
            return {1, 0, -1, standing.key, standing.ahead, look_again < math.huge and look_again or -1, differs}
        end
    end
end
if start then
    at = now
    store(true, NOT, '')
    return {1, 1, now, '', 0, -1, differs}
end
for _, standing in ipairs(standings) do
    if standing.slots then
        local passed = math.max(0, standing.ahead - (standing.slots - standing.started) + 1)
        local since = math.max(free_since(standing.key), now - passed * TURN)
        store(false, LINE, standing.key)
        call('SET', prefix .. 'limit_free:' .. standing.key, int(since))
        return {1, 0, at, '', 0, TURN, differs}
    end
end
store(false, NOT, '')
return {1, 0, at, '', 0, TURN, differs}
