-- Lock the dependencies and expiries of a namespace until the end of the transaction. Comes before all other locks. Without
-- p_wait it returns false if another transaction has the lock.
create or replace function interlock.job_composition_lock(p_namespace text, p_wait boolean) returns boolean
language plpgsql volatile
as $$
begin
    if p_wait then
        perform pg_advisory_xact_lock(1229870162, hashtext(p_namespace));
        return true;
    end if;
    return pg_try_advisory_xact_lock(1229870162, hashtext(p_namespace));
end
$$;
