-- Limits. What is kept, below the namespace's prefix:
--   reservation:OWNER      one reservation: who, under which limits (uses, as JSON), its time, what it waits for
--   reserves:SESSION       the owners of a session's reservations
--   limit_stale            owners that have not started, by when nobody is expected to come for them any more
--   limit_names            every key in use, in the order of names
--   limit_uses:KEY         the owners on a key, by their tickets
--   limit_at_work:KEY      those that have started, by their tickets
--   limit_line:KEY         those in its line, by their tickets
--   limit_plans:KEY        those that have not started, by their times
--   limit_sessions:KEY     how many of them each session has
--   limit_figures:KEY      how many of them know which figures
--   limit_free:KEY         since when a key with a line has had room
--   limit_starts:KEY       the starts that count for a pace, by their times; limit_start:KEY: who they were, as JSON
--   limit_counts           keys with such starts, by when to look which count no more
-- Times and spans are whole microseconds.
local TURN, STALE = 10 * 1000000, 3600 * 1000000
local NOT, LINE, TIME = '0', '1', '2' -- what a reservation that has not started waits for

local function text_figure(most, per)
    return most .. ':' .. per
end

-- What is known of a limit: how many may be at work at once (nil if nobody speaks of slots), the paces, the longest of
-- them, and how many different figures there are. An own figure counts also if it is not stored yet.
local function figures_of(key, own_most, own_per)
    local known = {slots = nil, paces = {}, longest = 0, count = 0}
    local function add(most, per)
        known.count = known.count + 1
        known.longest = math.max(known.longest, per)
        if per > 0 then
            known.paces[#known.paces + 1] = {most = most, per = per}
        elseif not known.slots or most < known.slots then
            known.slots = most
        end
    end
    local own = own_most and text_figure(own_most, own_per)
    for _, figure in ipairs(call('HKEYS', prefix .. 'limit_figures:' .. key)) do
        if figure ~= own then
            local most, per = string.match(figure, '(%d+):(%d+)')
            add(tonumber(most), tonumber(per))
        end
    end
    if own then
        add(tonumber(own_most), tonumber(own_per))
    end
    return known
end

-- How many more may start at once, as far as slots go.
local function room_of(key)
    local slots = figures_of(key).slots
    return (slots or math.huge) - call('ZCARD', prefix .. 'limit_at_work:' .. key)
end

local function free_since(key)
    return tonumber(call('GET', prefix .. 'limit_free:' .. key) or 0)
end

local function read_reservation(owner)
    local f = call('HMGET', prefix .. 'reservation:' .. owner,
        'caller', 'session', 'asked_at', 'last_asked', 'at', 'started', 'waits', 'place', 'uses', 'ticket')
    if not f[1] then
        return nil
    end
    return {
        owner = owner, caller = f[1], session = f[2], asked_at = tonumber(f[3]), last_asked = tonumber(f[4]),
        at = tonumber(f[5]), started = f[6] == '1', waits = f[7], place = f[8], uses = cjson.decode(f[9]),
        ticket = f[10],
    }
end

local function count_down(name, field)
    if call('HINCRBY', name, field, -1) <= 0 then
        call('HDEL', name, field)
    end
end

local function forget_if_idle(key)
    if call('EXISTS', prefix .. 'limit_uses:' .. key, prefix .. 'limit_starts:' .. key) == 0 then
        call('DEL', prefix .. 'limit_free:' .. key)
        call('ZREM', prefix .. 'limit_names', key)
        call('ZREM', prefix .. 'limit_counts', key)
    end
end

-- Forget at most so many starts that count no more: the oldest, up to the first that still does. Answers how many.
local function forget_starts(key, most)
    local starts, details = prefix .. 'limit_starts:' .. key, prefix .. 'limit_start:' .. key
    for forgotten = 0, most - 1 do
        local oldest = call('ZRANGE', starts, 0, 0)[1]
        if not oldest then
            call('ZREM', prefix .. 'limit_counts', key)
            return forgotten
        end
        local counts_until = cjson.decode(call('HGET', details, oldest)).counts_until
        if tonumber(counts_until) > now then
            call('ZADD', prefix .. 'limit_counts', counts_until, key)
            return forgotten
        end
        call('ZREM', starts, oldest)
        call('HDEL', details, oldest)
    end
    return most
end

-- Forget a reservation; whatever slots that frees are free since then.
local function drop(r, at)
    call('DEL', prefix .. 'reservation:' .. r.owner)
    call('SREM', prefix .. 'reserves:' .. r.session, r.owner)
    call('ZREM', prefix .. 'limit_stale', r.owner)
    for _, use in ipairs(r.uses) do
        local key = use[1]
        local had_room = room_of(key) > 0
        call('ZREM', prefix .. 'limit_uses:' .. key, r.owner)
        call('ZREM', prefix .. 'limit_at_work:' .. key, r.owner)
        call('ZREM', prefix .. 'limit_line:' .. key, r.owner)
        call('ZREM', prefix .. 'limit_plans:' .. key, r.owner)
        count_down(prefix .. 'limit_sessions:' .. key, r.session)
        count_down(prefix .. 'limit_figures:' .. key, text_figure(use[2], use[3]))
        if not had_room and room_of(key) > 0 then
            call('SET', prefix .. 'limit_free:' .. key, int(at))
        end
        forget_if_idle(key)
    end
end

-- Forget all of a session's reservations, or at most so many; answers them.
local function drop_session(session, at, most)
    local dropped = {}
    for _, owner in ipairs(call('SMEMBERS', prefix .. 'reserves:' .. session)) do
        if most and #dropped >= most then
            break
        end
        local r = read_reservation(owner)
        if r then
            drop(r, at)
            dropped[#dropped + 1] = r
        else
            call('SREM', prefix .. 'reserves:' .. session, owner)
        end
    end
    return dropped
end

-- Forget at most so many of those that nobody comes for; answers how many. One that is left for later is still planned
-- with and stands in line, which holds others up for a while and lets nobody start too soon.
local function drop_stale(most)
    local stale = call('ZRANGEBYSCORE', prefix .. 'limit_stale', '-inf', '(' .. int(now), 'LIMIT', 0, most)
    for _, owner in ipairs(stale) do
        local r = read_reservation(owner)
        if r then
            drop(r, now)
        else
            call('ZREM', prefix .. 'limit_stale', owner)
        end
    end
    return #stale
end

-- Clear away the dead of a key, in the order in which they died; answers when the first of the living would.
local function bury(key)
    local dead, first_end = {}, math.huge
    for _, session in ipairs(call('HKEYS', prefix .. 'limit_sessions:' .. key)) do
        local ends_at = alive_until(session)
        if ends_at <= now then
            dead[#dead + 1] = session
        else
            first_end = math.min(first_end, ends_at)
        end
    end
    table.sort(dead, function(one, other) return alive_until(one) < alive_until(other) end)
    for _, session in ipairs(dead) do
        drop_session(session, alive_until(session))
    end
    return first_end
end

-- Tell the first in line of a key that has room, as many as there is room for; the leaver's own are returned instead.
local function pass_on(key, leaver, own)
    bury(key)
    local line = prefix .. 'limit_line:' .. key
    local room = math.min(room_of(key), call('ZCARD', line))
    if room > 0 then
        for _, owner in ipairs(call('ZRANGE', line, 0, room - 1)) do
            local session = call('HGET', prefix .. 'reservation:' .. owner, 'session')
            if session == leaver then
                own[owner] = true
                own[#own + 1] = owner
            else
                tell(session, 'turn ' .. owner)
            end
        end
    end
end
