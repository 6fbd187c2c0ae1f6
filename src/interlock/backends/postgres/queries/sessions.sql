-- name: begin
-- Start a session.
select interlock.session_begin($1, $2, $3, $4, $5, $6, $7)

-- name: renew
-- Extend a session.
select interlock.session_renew($1, $2, $3, $4)

-- name: end
-- End a session with everything it holds.
select interlock.session_end($1, $2, $3), interlock.limit_session_end($1, $2, $4, $3), interlock.job_end_session($1, $2)

-- name: leave
-- Record whether a session's process was asked to stop.
select interlock.job_mark_leaving($1, $2, $3, $4)

-- name: note_blocked
-- Record that the event loop of a session's process is blocked, or runs again.
select interlock.session_note_blocked($1, $2, $3, $4, $5)

-- name: sweep
-- Remove leftovers of ended sessions, and expired claims, limits and locks.
select interlock.session_sweep($1, $2) + interlock.claim_sweep($1, $2) + interlock.limit_sweep($1, $3, $2)
       + interlock.job_sweep($1, $2)
