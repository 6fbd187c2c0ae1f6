-- Remove keys whose time is over, at most p_max, and return how many. Keys that an enqueue has locked are skipped.
-- planner: lookups_in_partitions
create or replace function interlock.job_prune_keys(p_namespace text, p_now bigint, p_max integer) returns integer
language plpgsql volatile
as $$
declare
    removed integer;
begin
    with due as materialized (
        select k.ctid as tid, k.id, k.keep from interlock.job_key k
        where k.namespace = p_namespace and k.check_at <= p_now order by k.check_at limit p_max for update skip locked
    ),
    seen as materialized (
        select d.tid, case
            when exists (select from interlock.job j where j.id = d.id) then p_now + greatest(d.keep, 60000000)
            else (select h.finished_at + d.keep from interlock.job_history h where h.id = d.id limit 1) end as check_at
        from due d
    ),
    later as (
        update interlock.job_key k set check_at = s.check_at from seen s where k.ctid = s.tid and s.check_at > p_now
    ),
    gone as (
        delete from interlock.job_key k using seen s
        where k.ctid = s.tid and coalesce(s.check_at, 0) <= p_now returning k.id
    )
    select count(*) into removed from gone;
    return removed;
end
$$;
