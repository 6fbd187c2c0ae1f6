-- Fail unless the lease is live, and keep the key from being granted again until the transaction ends. For writes in
-- any transaction.
create or replace function interlock.lock_guard(
    p_namespace text, p_key text, p_owner text, p_fence bigint, p_clock double precision default null
) returns void
language plpgsql volatile
set lock_timeout = '4s'
as $$
declare
    l interlock.lock;
begin
    select * into l from interlock.lock k where k.namespace = p_namespace and k.key = p_key for key share;
    if not found or l.owner is distinct from p_owner or l.fence is distinct from p_fence
       or l.expires_at <= interlock.now_or(p_clock)
       or not coalesce(interlock.session_expiry(p_namespace, l.session) > interlock.now_or(p_clock), false) then
        raise exception 'the lease on % with fence % is not live', p_key, p_fence using errcode = 'IL001';
    end if;
end
$$;
