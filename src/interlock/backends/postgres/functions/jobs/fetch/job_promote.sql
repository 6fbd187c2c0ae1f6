-- Make scheduled jobs ready that are due, up to p_max per pool. unfinished: whether there may be more; signalled: the
-- lanes of those that have one.
-- planner: caller
create or replace function interlock.job_promote(
    p_namespace text, p_pools text[], p_now bigint, p_max integer, out unfinished boolean, out signalled text[]
)
language plpgsql volatile
as $$
declare
    tids tid[];
    found_here tid[];
    of_pool text;
    laned bigint[];
begin
    foreach of_pool in array p_pools loop
        found_here := array(
            select l.ctid from interlock.job_scheduled l
            where l.pool = of_pool and l.at <= p_now order by l.at, l.id limit p_max for update skip locked);
        tids := tids || found_here;
        unfinished := coalesce(unfinished, false) or cardinality(found_here) = p_max;
    end loop;
    with due as (
        delete from interlock.job_scheduled l where l.ctid = any (tids) returning l.*
    ),
    made as (
        insert into interlock.job_ready (pool, sort, id, use_max_count, class, limited, name, use_key)
        select d.pool, interlock.job_sort(d.at, d.priority), d.id, d.use_max_count, d.class, d.limited, d.name, d.use_key
        from due d where d.lane is null
    )
    select array_agg(d.id order by d.at, d.id) into laned from due d where d.lane is not null;
    if laned is not null then
        signalled := interlock.job_assign_positions(p_namespace, laned);
    end if;
end
$$;
