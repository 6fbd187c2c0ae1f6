-- name: forced
-- List the leases that were taken from a session by force.
select owner, why from interlock.forced where namespace = $1 and session = $2
