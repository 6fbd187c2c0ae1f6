-- Notify the first reservations in a key's queue, as many as there is room for. Those of the leaving session are
-- returned instead.
create or replace function interlock.limit_notify_next(
    p_namespace text, p_key text, p_leaver text, p_now timestamptz, p_fresh bigint
) returns text[]
language plpgsql volatile
as $$
declare
    free bigint;
    next_one record;
    own text[] := '{}';
begin
    free := interlock.limit_free(p_namespace, p_key, p_now, p_fresh);
    if free > 0 then
        for next_one in
            select u.owner, u.session from interlock.limit_uses(p_namespace, p_key, p_now, p_fresh) u
            where u.live and u.waiting order by u.ticket limit least(free, 1000)
        loop
            if next_one.session = p_leaver then
                own := own || next_one.owner;
            else
                perform pg_notify('interlock_' || next_one.session, 'turn ' || next_one.owner);
            end if;
        end loop;
    end if;
    return own;
end
$$;
