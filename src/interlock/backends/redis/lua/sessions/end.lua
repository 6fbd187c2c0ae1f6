-- End a session: from this step on nothing of it is live. Clears a bounded number of the things it had; answers how many,
-- so that the caller can go on until there is nothing left.
write_when_full()
local id = ARGV[3]
if alive_until(id) > now then
    call('ZADD', prefix .. 'sessions', int(now), id)
    known_sessions[id] = now
end
return clear(id, tonumber(ARGV[4]))
