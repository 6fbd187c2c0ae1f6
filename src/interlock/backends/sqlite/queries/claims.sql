-- name: read_claim
-- Read the asking session and, if there is one, the claim on a key with its owner's session.
select s.host, s.pid, s.program, c.key, c.state, c.attempt, c.fence, c.owner, c.session, c.host, c.pid, c.program, c.claimed_at,
       min(c.expires_at, coalesce(h.expires_at, c.claimed_at)), c.finished_at, c.retry_at, c.error, c.result,
       c.kept_until
from interlock_session s
left join interlock_claim c on c.namespace = s.namespace and c.key = :key and c.kept_until > :now
left join interlock_session h on h.namespace = c.namespace and h.id = c.session
where s.namespace = :namespace and s.id = :session and s.expires_at > :now

-- name: add_claim
-- Write a claim that is in progress.
insert or replace into interlock_claim (
    namespace, key, state, attempt, fence, owner, session, host, pid, program, claimed_at, expires_at, keep, kept_until)
values (
    :namespace, :key, 'in progress', :attempt, :fence, :owner, :session, :host, :pid, :program, :now, :now + :lease,
    :keep, :now + :lease + :keep)

-- name: extend_lease
-- Extend the lease of a claim that an owner already has.
update interlock_claim set expires_at = :now + :lease, keep = :keep, kept_until = :now + :lease + :keep
where namespace = :namespace and key = :key and owner = :owner

-- name: renew_lease
-- Extend a claim's lease, unless it or its session has expired.
update interlock_claim set expires_at = :now + :lease, kept_until = :now + :lease + keep
where namespace = :namespace and key = :key and owner = :owner and state = 'in progress' and expires_at > :now
  and exists (
      select 1 from interlock_session s
      where s.namespace = interlock_claim.namespace and s.id = interlock_claim.session and s.expires_at > :now)

-- name: finish_claim
-- Finish a claim: done or failed.
update interlock_claim
set state = :state, expires_at = null, finished_at = :now, retry_at = :now + :retry_in, error = :error, result = :result,
    kept_until = :now + coalesce(:retry_in, 0) + :keep
where namespace = :namespace and key = :key and owner = :owner and state = 'in progress' and kept_until > :now

-- name: owner_and_state
-- Read who owns a claim and its state.
select owner, state from interlock_claim where namespace = :namespace and key = :key and kept_until > :now

-- name: delete_claim
-- Delete a claim.
delete from interlock_claim where namespace = :namespace and key = :key

-- name: why_forgotten
-- Read why an owner's claim was taken away.
select why from interlock_forced where namespace = :namespace and owner = :owner

-- name: list_claims
-- List claims by key.
select c.key, c.state, c.attempt, c.fence, c.owner, c.session, c.host, c.pid, c.program, c.claimed_at,
       min(c.expires_at, coalesce(h.expires_at, c.claimed_at)), c.finished_at, c.retry_at, c.error, c.result,
       c.kept_until
from interlock_claim c
left join interlock_session h on h.namespace = c.namespace and h.id = c.session
where c.namespace = :namespace and c.key >= :start
order by c.key

-- name: sweep_claims
-- Delete claims whose retention has ended, a bounded number at a time.
delete from interlock_claim
where namespace = :namespace
  and key in (
      select c.key from interlock_claim c where c.namespace = :namespace and c.kept_until <= :now limit 1000)
