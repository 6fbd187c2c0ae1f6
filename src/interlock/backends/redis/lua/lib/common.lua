-- Shared by every script: the namespace's key prefix, the current time, sessions, fences and notifications.
-- ARGV[1] is the prefix; ARGV[2] is the time if a test controls the clock, otherwise empty.
-- Times and durations are whole microseconds, which a double holds exactly. They are written with int(), because Lua's own
-- conversion keeps only 14 digits.
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

-- Let the script run even when the server is out of memory. Call it first in scripts that release or extend something that
-- was granted before and need only a few bytes. At maxmemory Redis refuses a command only if the script has not written
-- anything yet, so this writes something that needs no memory.
local function allow_when_out_of_memory()
    call('DEL', prefix .. 'full')
end

-- Return when a session expires; 0 if it is unknown. Each session is read once per script.
local expiry_of = {}
local function session_expiry(session)
    local expires_at = expiry_of[session]
    if not expires_at then
        expires_at = tonumber(call('ZSCORE', prefix .. 'sessions', session) or 0)
        expiry_of[session] = expires_at
    end
    return expires_at
end

-- Return a new fence as a number and as text, and the current time as text. A fence is larger than all before and not
-- smaller than the clock, so that fences grow even if Redis has lost its data.
local function next_fence()
    -- The clock is nearly always ahead of the last fence, so that one call is enough.
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

-- Return the host, process ID and program of a session.
local details_of = {}
local function session_details(session)
    local found = details_of[session]
    if not found then
        found = call('HMGET', prefix .. 'session:' .. session, 'host', 'pid', 'program')
        details_of[session] = found
    end
    return found[1] or '', found[2] or '0', found[3] or ''
end

-- Publish a message to a session. Messages are only hints, so the script goes on if this user may not publish.
local function notify(session, message)
    redis.pcall('PUBLISH', prefix .. 'session:' .. session, message)
end
