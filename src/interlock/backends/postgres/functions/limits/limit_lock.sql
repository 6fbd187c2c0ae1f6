-- Lock keys in the order given, which is the same for all callers, so that two never deadlock.
create or replace function interlock.limit_lock(p_namespace text, p_keys text[]) returns void
language plpgsql volatile
as $$
declare
    wanted text;
begin
    foreach wanted in array p_keys loop
        loop
            perform from interlock.limit_key k where k.namespace = p_namespace and k.key = wanted for update;
            exit when found;
            -- Also if a sweep has just removed it.
            insert into interlock.limit_key (namespace, key) values (p_namespace, wanted) on conflict do nothing;
        end loop;
    end loop;
end
$$;
