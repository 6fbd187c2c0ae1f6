-- Writing reservations.

-- Write a new reservation; returns the fields that updates of it need.
local function add_reservation(owner, caller, session, uses)
    local ticket = int(call('INCR', prefix .. 'ticket'))
    call('HSET', prefix .. 'reservation:' .. owner, 'caller', caller, 'session', session, 'asked_at', int(now),
        'uses', cjson.encode(uses), 'ticket', ticket)
    call('SADD', prefix .. 'reservations:' .. session, owner)
    for _, use in ipairs(uses) do
        call('ZADD', prefix .. 'limit_uses:' .. use[1], ticket, owner)
        call('HINCRBY', prefix .. 'limit_sessions:' .. use[1], session, 1)
        call('HINCRBY', prefix .. 'limit_quotas:' .. use[1], quota_text(use[2], use[3]), 1)
        call('ZADD', prefix .. 'limit_names', 0, use[1])
    end
    return {
        owner = owner, caller = caller, session = session, ticket = ticket, asked_at = now, uses = uses,
        waits = WAITS_FOR_NOTHING, waits_for = '',
    }
end

-- Record a start under one limit, and against its rate or cooldown if it has one.
local function record_start(r, use, longest)
    local key = use[1]
    call('ZREM', prefix .. 'limit_planned:' .. key, r.owner)
    call('ZADD', prefix .. 'limit_started:' .. key, r.ticket, r.owner)
    if longest > 0 then
        local host, pid, program = session_details(r.session)
        call('ZADD', prefix .. 'limit_starts:' .. key, int(now), r.owner)
        call('HSET', prefix .. 'limit_start:' .. key, r.owner, cjson.encode({
            counts_until = int(now + longest), caller = r.caller, session = r.session, host = host, pid = pid,
            program = program, max_count = use[2], per = use[3], asked_at = int(r.asked_at),
        }))
        forget_starts(key, 10)
    end
end

-- Update a reservation: its start time, whether it has started, and what it waits for. `statuses` are those of its limits.
local function update_reservation(r, at, started, waits, waits_for, statuses)
    call('HSET', prefix .. 'reservation:' .. r.owner, 'last_asked', int(now), 'at', int(at),
        'started', started and '1' or '0', 'waits', waits, 'waits_for', waits_for)
    local left_queue = r.waits == WAITS_FOR_SLOT and r.waits_for ~= waits_for and r.waits_for
    if left_queue then
        call('ZREM', prefix .. 'limit_queue:' .. left_queue, r.owner)
    end
    if waits == WAITS_FOR_SLOT then
        call('ZADD', prefix .. 'limit_queue:' .. waits_for, r.ticket, r.owner)
    end
    if started then
        call('ZREM', prefix .. 'limit_stale', r.owner)
    else
        call('ZADD', prefix .. 'limit_stale', int(math.max(now, at) + STALE), r.owner)
    end
    for i, use in ipairs(r.uses) do
        if started then
            record_start(r, use, statuses[i].quotas.longest)
        else
            call('ZADD', prefix .. 'limit_planned:' .. use[1], int(at), r.owner)
        end
    end
    -- A slot that was kept for it in the queue it left goes to those behind it.
    if left_queue and not started then
        notify_next_waiters(left_queue, '', {})
    end
end
