-- Extend a session. Returns false if it has expired.
create or replace function interlock.session_renew(
    p_namespace text, p_id text, p_seconds double precision, p_clock double precision
) returns boolean
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    update interlock.session s set expires_at = interlock.now_or(p_clock) + interlock.seconds(p_seconds)
    where s.namespace = p_namespace and s.id = p_id and s.expires_at > interlock.now_or(p_clock);
    return found;
end
$$;
