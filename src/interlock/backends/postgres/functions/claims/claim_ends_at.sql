-- When a claim in progress ends: with its lease or its session. Null if the claim is finished.
create or replace function interlock.claim_ends_at(c interlock.claim) returns timestamptz
language sql stable
as $$
    select case when c.expires_at is not null
                then least(c.expires_at, coalesce(interlock.session_expiry(c.namespace, c.session), c.claimed_at)) end
$$;
