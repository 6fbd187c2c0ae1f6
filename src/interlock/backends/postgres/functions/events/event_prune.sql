-- Remove up to p_max events that were kept long enough. Returns how many. Events with an unfinished job stay and are
-- checked again in an hour.
-- planner: lookups
create or replace function interlock.event_prune(
    p_namespace text, p_max integer, p_clock double precision
) returns integer
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    pruned integer;
begin
    with due as materialized (
        select e.id, exists (select from interlock.job j where j.id = any (e.jobs)) as unfinished
        from interlock.event e
        where e.namespace = p_namespace and e.kept_until <= now_us
        order by e.kept_until limit p_max for update of e skip locked
    ),
    kept_on as (
        update interlock.event e set kept_until = now_us + 3600000000 from due where e.id = due.id and due.unfinished
    ),
    gone as (
        delete from interlock.event e using due where e.id = due.id and not due.unfinished returning 1
    )
    select count(*) into pruned from gone;
    return pruned;
end
$$;
