-- Let jobs that are parked because this one failed wait for it again: it is retried. Those that are parked because of another
-- one as well stay parked. The caller has locked the dependencies of the namespace.
-- planner: lookups
create or replace function interlock.job_awaited_again(p_id bigint) returns void
language plpgsql volatile
as $$
begin
    update interlock.job_after a set failed = false where a.needs = p_id and a.failed;
    if found then
        update interlock.job j set parked = null
        from interlock.job_after a
        where a.needs = p_id and j.id = a.id and j.parked is not null
          and not exists (select from interlock.job_after o where o.id = j.id and o.failed);
    end if;
end
$$;
