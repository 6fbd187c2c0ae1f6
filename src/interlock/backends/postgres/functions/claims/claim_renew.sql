-- Renew claims. Each element of the arrays is one claim; refusal is null for claims that were live.
create or replace function interlock.claim_renew(
    p_namespace text, p_keys text[], p_owners text[], p_leases double precision[], p_clock double precision
) returns table (owner text, expires_at double precision, refusal json)
language plpgsql volatile
as $$
declare
    now_is timestamptz;
begin
    perform interlock.durably();
    for i in 1 .. cardinality(p_owners) loop
        now_is := interlock.now_or(p_clock);
        owner := p_owners[i];
        update interlock.claim c
        set expires_at = now_is + interlock.seconds(p_leases[i]),
            kept_until = now_is + interlock.seconds(p_leases[i] + c.keep)
        where c.namespace = p_namespace and c.key = p_keys[i] and c.owner = p_owners[i] and c.state = 'in progress'
          and c.expires_at > now_is
          and exists (
              select from interlock.session s
              where s.namespace = c.namespace and s.id = c.session and s.expires_at > now_is)
        returning extract(epoch from c.expires_at), null into expires_at, refusal;
        if not found then
            expires_at := null;
            refusal := interlock.claim_refusal(p_namespace, p_keys[i], p_owners[i], now_is);
        end if;
        return next;
    end loop;
end
$$;
