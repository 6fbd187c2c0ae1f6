-- What every script begins with: the namespace's prefix, and the clock that decides. Tests pass a time of their own.
-- Times and durations are whole microseconds: a double holds them exactly. They are written with int(), because
-- Lua's own conversion keeps only 14 digits.
local prefix = ARGV[1]
local call = redis.call
local now
if ARGV[2] == '' then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
else
    now = tonumber(ARGV[2])
end

local function int(number)
    return string.format('%.0f', number)
end

-- Begin a script that must also run while the server's memory is full: it ends or prolongs what was granted before, and
-- needs no more than a few bytes. At maxmemory Redis refuses a command that needs memory only if the script has not written
-- anything yet, so this writes something that needs none.
local function write_when_full()
    call('DEL', prefix .. 'full')
end

-- When each session's life ends; 0 for one that is unknown. Scores of one sorted set, read once per script.
local known_sessions = {}
local function alive_until(session)
    local ends_at = known_sessions[session]
    if not ends_at then
        ends_at = tonumber(call('ZSCORE', prefix .. 'sessions', session) or 0)
        known_sessions[session] = ends_at
    end
    return ends_at
end

-- The next fence, as a number and as text, and the time as text: later than every one before, and not before the clock,
-- so that fences grow also when Redis has lost its data. Kept in `fence`.
local function next_fence()
    -- The clock nearly always lies ahead of the last fence, so that one call is enough.
    local now_text = int(now)
    local last = call('SET', prefix .. 'fence', now_text, 'GET')
    if not last or tonumber(last) < now then
        return now, now_text, now_text
    end
    local fence = tonumber(last) + 1
    local text = int(fence)
    call('SET', prefix .. 'fence', text)
    return fence, text, now_text
end

-- Host, process and program of a session, for people who ask.
local known_cards = {}
local function card(session)
    local found = known_cards[session]
    if not found then
        found = call('HMGET', prefix .. 'session:' .. session, 'host', 'pid', 'program')
        known_cards[session] = found
    end
    return found[1] or '', found[2] or '0', found[3] or ''
end

-- A message is only a hint: where this user may not send any, all the rest is done all the same.
local function tell(session, message)
    redis.pcall('PUBLISH', prefix .. 'session:' .. session, message)
end
