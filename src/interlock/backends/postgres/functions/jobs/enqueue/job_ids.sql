-- The first of p_count consecutive IDs. Requests for more than a hundred take turns; other requests draw single values
-- meanwhile, so that another attempt may be needed.
create or replace function interlock.job_ids(p_count integer) returns bigint
language plpgsql volatile
as $$
declare
    first bigint := nextval('interlock.job_id');
    last bigint := first;
    next bigint;
begin
    perform interlock.durably();
    if p_count > 100 then
        perform pg_advisory_xact_lock(1229870157, 1);
    end if;
    while last - first + 100 < p_count loop
        next := nextval('interlock.job_id');
        if next <> last + 100 then
            first := next;
        end if;
        last := next;
    end loop;
    return first;
end
$$;
