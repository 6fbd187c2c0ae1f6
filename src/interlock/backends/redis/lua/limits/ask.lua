-- include: common limits limit_cleanup limit_schedule limit_reserve
-- Make a reservation unless it exists, and start it if the caller wants that (ARGV[6]) and its turn has come. From ARGV[8] on
-- key, max_count and per of each limit, in the order of keys; ARGV[7] is how many reservations a limit takes. Returns {1, started,
-- at, key, ahead, ask again in, limit with differing quotas}, with -1 for unknown times, {2 full, key} or {3 session ended}.
local owner, caller, session, start, max_uses = ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1', tonumber(ARGV[7])
local MAX_STALE = 1000

if session_expiry(session) <= now then
    return {3}
end
drop_stale(MAX_STALE)

local reservation = read_reservation(owner)
local uses = reservation and reservation.uses
if not uses then
    uses = {}
    for i = 8, #ARGV, 3 do
        uses[#uses + 1] = {ARGV[i], ARGV[i + 1], ARGV[i + 2]}
    end
end

-- Read the status of a limit for this reservation, which is not counted itself.
local function read_status(use)
    local key = use[1]
    local first_expiry = drop_dead_holders(key)
    local queue = prefix .. 'limit_queue:' .. key
    local ahead = reservation and call('ZRANK', queue, owner)
    if not ahead then
        ahead = reservation and call('ZCOUNT', queue, '-inf', '(' .. reservation.ticket) or call('ZCARD', queue)
    end
    local quotas = quotas_of(key, use[2], use[3])
    return {
        key = key, quotas = quotas, slots = quotas.slots, ahead = ahead, ends_at = first_expiry,
        started = call('ZCARD', prefix .. 'limit_started:' .. key),
    }
end

local statuses, differs = {}, ''
for i, use in ipairs(uses) do
    statuses[i] = read_status(use)
    if differs == '' and statuses[i].quotas.count > 1 then
        differs = use[1]
    end
end
if reservation and reservation.started then
    return {1, 1, reservation.at, '', 0, -1, differs}
end
if not reservation then
    for _, use in ipairs(uses) do
        if call('ZCARD', prefix .. 'limit_uses:' .. use[1]) >= max_uses then
            return {2, use[1]}
        end
    end
end

-- When it may start, as far as rates and cooldowns go. A time that has come is planned again if the starts leave no room.
local function start_time()
    local at = reservation and reservation.at
    local decided_by = reservation and reservation.waits == WAITS_FOR_TIME and reservation.waits_for or ''
    if at and at <= now then
        for _, status in ipairs(statuses) do
            if not within_pace(status) then
                at = nil
                break
            end
        end
    end
    if at then
        return at, decided_by
    end
    if not reservation and fits_now(statuses) then
        return now, ''
    end
    return plan_start(statuses, reservation, owner)
end

local function save(at, started, waits, waits_for)
    local stored = reservation or add_reservation(owner, caller, session, uses)
    update_reservation(stored, at, started, waits, waits_for, statuses)
end

local at, decided_by = start_time()
if at > now then
    save(at, false, WAITS_FOR_TIME, decided_by)
    return {1, 0, at, decided_by, 0, at - now, differs}
end
for _, status in ipairs(statuses) do
    if status.slots then
        local free = status.slots - status.started
        local turn_at = math.huge
        if free > 0 then
            turn_at = status.ahead < free and 0 or free_since(status.key) + (status.ahead - free + 1) * TURN
        end
        if turn_at > now then
            save(at, false, WAITS_FOR_SLOT, status.key)
            if free > 0 then
                notify_next_waiters(status.key, '', {}) -- those ahead may not know that there is a free slot
            end
            local ask_again_in = math.max(0, math.min(status.ends_at, turn_at) - now)
            return {1, 0, -1, status.key, status.ahead, ask_again_in < math.huge and ask_again_in or -1, differs}
        end
    end
end
if start then
    save(now, true, WAITS_FOR_NOTHING, '')
    return {1, 1, now, '', 0, -1, differs}
end
-- It could start but the caller does not want that yet: it keeps a slot of its first limit with slots for one turn.
for _, status in ipairs(statuses) do
    if status.slots then
        local turns_passed = math.max(0, status.ahead - (status.slots - status.started) + 1)
        local since = math.max(free_since(status.key), now - turns_passed * TURN)
        save(at, false, WAITS_FOR_SLOT, status.key)
        call('SET', prefix .. 'limit_free:' .. status.key, int(since))
        return {1, 0, at, '', 0, TURN, differs}
    end
end
save(at, false, WAITS_FOR_NOTHING, '')
return {1, 0, at, '', 0, TURN, differs}
