-- Limits. Keys below the namespace's prefix:
--   reservation:OWNER      one reservation: its owner, its limits (uses, as JSON), its start time, what it waits for
--   reservations:SESSION   the owners of a session's reservations
--   limit_stale            owners that have not started, by when they count as abandoned
--   limit_names            every limit in use, by name
--   limit_uses:KEY         the owners under a limit, by ticket
--   limit_started:KEY      those that have started, by ticket
--   limit_queue:KEY        those that wait for a slot, by ticket
--   limit_planned:KEY      those that have not started, by their start times
--   limit_sessions:KEY     how many of them each session has
--   limit_quotas:KEY       how many of them declare which quota
--   limit_free:KEY         since when a limit with a queue has had a free slot
--   limit_starts:KEY       starts that count against a rate or cooldown, by time; limit_start:KEY: their details, as JSON
--   limit_start_expiry     limits with such starts, by when the oldest stops counting
-- Times and durations are whole microseconds.
local TURN, STALE = 10 * 1000000, 3600 * 1000000
-- What a reservation that has not started waits for.
local WAITS_FOR_NOTHING, WAITS_FOR_SLOT, WAITS_FOR_TIME = '0', '1', '2'

local function quota_text(max_count, per)
    return max_count .. ':' .. per
end

-- Read the quotas that reservations declare for a limit: the smallest number of slots (nil if it has none), the paces, the
-- longest period and the number of different quotas. A reservation's own quota counts even if it is not stored yet.
local function quotas_of(key, own_max_count, own_per)
    local found = {slots = nil, paces = {}, longest = 0, count = 0}
    local function add(max_count, per)
        found.count = found.count + 1
        found.longest = math.max(found.longest, per)
        if per > 0 then
            found.paces[#found.paces + 1] = {max_count = max_count, per = per}
        elseif not found.slots or max_count < found.slots then
            found.slots = max_count
        end
    end
    local own = own_max_count and quota_text(own_max_count, own_per)
    for _, quota in ipairs(call('HKEYS', prefix .. 'limit_quotas:' .. key)) do
        if quota ~= own then
            local max_count, per = string.match(quota, '(%d+):(%d+)')
            add(tonumber(max_count), tonumber(per))
        end
    end
    if own then
        add(tonumber(own_max_count), tonumber(own_per))
    end
    return found
end

-- Return how many slots of a limit are free.
local function free_slots(key)
    local slots = quotas_of(key).slots
    return (slots or math.huge) - call('ZCARD', prefix .. 'limit_started:' .. key)
end

local function free_since(key)
    return tonumber(call('GET', prefix .. 'limit_free:' .. key) or 0)
end

local function read_reservation(owner)
    local f = call('HMGET', prefix .. 'reservation:' .. owner,
        'caller', 'session', 'asked_at', 'last_asked', 'at', 'started', 'waits', 'waits_for', 'uses', 'ticket')
    if not f[1] then
        return nil
    end
    return {
        owner = owner, caller = f[1], session = f[2], asked_at = tonumber(f[3]), last_asked = tonumber(f[4]),
        at = tonumber(f[5]), started = f[6] == '1', waits = f[7], waits_for = f[8], uses = cjson.decode(f[9]),
        ticket = f[10],
    }
end
