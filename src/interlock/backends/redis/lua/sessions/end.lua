-- include: common locks session_cleanup
-- End a session: from this step on nothing of it is live. Frees a bounded number of its locks and returns how many, so
-- that the caller can repeat it until none is left.
allow_when_out_of_memory()
local id = ARGV[3]
if session_expiry(id) > now then
    call('ZADD', prefix .. 'sessions', int(now), id)
    expiry_of[id] = now
end
return free_session(id, tonumber(ARGV[4]))
