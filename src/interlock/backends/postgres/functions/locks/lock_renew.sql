-- Renew leases. Each element of the arrays is one lease; why is null for leases that were live.
create or replace function interlock.lock_renew(
    p_namespace text, p_keys text[], p_owners text[], p_ttls double precision[], p_clock double precision
) returns table (owner text, expires_at double precision, why text)
language plpgsql volatile
as $$
declare
    i integer;
    now_is timestamptz;
begin
    perform interlock.durably();
    for i in 1 .. cardinality(p_owners) loop
        now_is := interlock.now_or(p_clock);
        owner := p_owners[i];
        update interlock.lock l set expires_at = now_is + interlock.seconds(p_ttls[i])
        where l.namespace = p_namespace and l.key = p_keys[i] and l.owner = p_owners[i] and l.expires_at > now_is
          and exists (
              select from interlock.session s
              where s.namespace = l.namespace and s.id = l.session and s.expires_at > now_is)
        returning extract(epoch from l.expires_at), null into expires_at, why;
        if not found then
            expires_at := null;
            select coalesce(max(l.ended_why), 'it had expired') into why from interlock.lock l
            where l.namespace = p_namespace and l.key = p_keys[i] and l.ended_owner = p_owners[i];
        end if;
        return next;
    end loop;
end
$$;
