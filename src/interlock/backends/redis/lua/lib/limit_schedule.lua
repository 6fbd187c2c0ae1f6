-- When a reservation may start under the rates and cooldowns of its limits.

-- Return whether the starts so far leave room for one now.
local function within_pace(status)
    for _, pace in ipairs(status.quotas.paces) do
        local since = '(' .. int(now - pace.per)
        if call('ZCOUNT', prefix .. 'limit_starts:' .. status.key, since, '+inf') >= pace.max_count then
            return false
        end
    end
    return true
end

-- Return whether a new reservation can start now for certain: no other is planned nearby, and the starts leave room. This is
-- the common case.
local function fits_now(statuses)
    for _, status in ipairs(statuses) do
        local longest = status.quotas.longest
        if longest > 0 then
            local planned = call('ZCOUNT', prefix .. 'limit_planned:' .. status.key, '(' .. int(now - longest), '+inf')
            if planned > 0 or not within_pace(status) then
                return false
            end
        end
    end
    return true
end

-- Return the starts after a time, and the planned starts of reservations made before this one, sorted.
local function times_of(key, after, reservation, owner)
    local times = {}
    local since = '(' .. int(after)
    local starts = call('ZRANGEBYSCORE', prefix .. 'limit_starts:' .. key, since, '+inf', 'WITHSCORES')
    for i = 2, #starts, 2 do
        times[#times + 1] = tonumber(starts[i])
    end
    local planned = call('ZRANGEBYSCORE', prefix .. 'limit_planned:' .. key, since, '+inf', 'WITHSCORES')
    for i = 1, #planned, 2 do
        local other = planned[i]
        local before = not reservation
        if reservation and other ~= owner then
            local ticket = call('ZSCORE', prefix .. 'limit_uses:' .. key, other)
            before = tonumber(ticket) < tonumber(reservation.ticket)
        end
        if before then
            times[#times + 1] = tonumber(planned[i + 1])
        end
    end
    table.sort(times)
    return times
end

-- Return the first time from `at` on with which at most pace.most of the times lie within pace.per. A window that is full
-- stays full until pace.per after its first time, so the candidate moves there. A window that was passed is never full again.
local function earliest_fit(times, pace, at)
    local first = 1
    while times[first] and times[first] <= at - pace.per do
        first = first + 1
    end
    while times[first + pace.max_count - 1] do
        local window_start, window_end = times[first], times[first + pace.max_count - 1]
        if math.max(window_end, at) - math.min(window_start, at) < pace.per then
            at = window_start + pace.per
        elseif window_start >= at then
            break
        end
        first = first + 1
    end
    return at
end

-- Return the first time from now on that fits every pace, and the limit that determined it.
local function plan_start(statuses, reservation, owner)
    local at, decided_by, times = now, '', {}
    local moved = true
    while moved do
        moved = false
        for i, status in ipairs(statuses) do
            for _, pace in ipairs(status.quotas.paces) do
                times[i] = times[i] or times_of(status.key, now - status.quotas.longest, reservation, owner)
                local fit = earliest_fit(times[i], pace, at)
                if fit > at then
                    at, decided_by, moved = fit, status.key, true
                end
            end
        end
    end
    return at, decided_by
end
