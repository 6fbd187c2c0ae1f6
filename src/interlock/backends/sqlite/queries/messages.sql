-- name: messages_of_session
-- Read which of a session's leases were taken away, and why.
select owner, why from interlock_forced where namespace = :namespace and session = :session
