-- Count slots that jobs have freed under locked keys. If that gives a key room that it did not have, the room dates from now.
create or replace function interlock.limit_settle(p_namespace text, p_keys text[], p_now timestamptz, p_fresh bigint)
returns void
language plpgsql volatile
as $$
declare
    one text;
    freed record;
    total bigint;
begin
    for one in
        select l.key from unnest(p_keys) as u (key)
        join interlock.job_limit l on l.namespace = p_namespace and l.key = u.key where l.taken > 0
    loop
        total := 0;
        for freed in
            with gone as (
                delete from interlock.job_slot_freed f where f.namespace = p_namespace and f.key = one and f.count > 0
                returning f.max_count, f.per, f.count
            )
            select g.max_count, g.per, sum(g.count)::integer as count from gone g group by g.max_count, g.per
        loop
            total := total + freed.count;
            perform interlock.job_count(p_namespace, one, freed.max_count, freed.per, -freed.count);
        end loop;
        if total > 0 then
            update interlock.job_limit l set free_since = interlock.micros(p_now)
            where l.namespace = p_namespace and l.key = one
              and interlock.limit_free(p_namespace, one, p_now, p_fresh) between 1 and total;
        end if;
    end loop;
end
$$;
