-- Whether a key that has this claim can be claimed: the claim is no longer kept, has failed and is due, or its holder
-- died.
create or replace function interlock.claim_open(c interlock.claim, p_now timestamptz) returns boolean
language sql stable
as $$
    select c.kept_until <= p_now
        or case c.state when 'in progress' then interlock.claim_ends_at(c) <= p_now
                        when 'failed' then c.retry_at <= p_now
                        else false end
$$;
