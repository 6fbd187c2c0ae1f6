-- Notify the first live waiter of a free key, unless it belongs to the leaving session. Returns its owner.
create or replace function interlock.lock_notify_next(p_namespace text, p_key text, p_leaver text, p_now timestamptz) returns text
language plpgsql volatile
as $$
declare
    first record;
begin
    perform interlock.lock_drop_dead_waiters(p_namespace, p_key, p_now);
    select w.owner, w.session into first
    from interlock.waiter w where w.namespace = p_namespace and w.key = p_key
    order by w.ticket limit 1;
    if not found then
        return null;
    end if;
    if first.session <> p_leaver then
        perform pg_notify('interlock_' || first.session, 'turn ' || first.owner);
    end if;
    return first.owner;
end
$$;
