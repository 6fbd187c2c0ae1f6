-- Remove up to p_max runs that ended before a time, or whose jobs were removed before they ended. Returns how many.
-- planner: index_reads
create or replace function interlock.pipeline_prune(
    p_namespace text, p_keep bigint, p_max integer, p_clock double precision
) returns bigint
language plpgsql volatile
as $$
declare
    bound constant bigint := interlock.micros(interlock.now_or(p_clock)) - p_keep;
    removed bigint;
begin
    with old as (
        select x.id from (
            select r.id from interlock.pipeline_run r where r.namespace = p_namespace and r.ended_at < bound
              and not exists (select from interlock.job j where j.id = r.id)
            union all
            select r.id from interlock.pipeline_run r
            where r.namespace = p_namespace and r.ended_at is null and r.started_at < bound
              and not exists (select from interlock.job j where j.id = r.id)
              and not exists (select from interlock.job_history h where h.id = r.id)
        ) x limit p_max
    ),
    gone as (
        delete from interlock.pipeline_run r where r.id in (select old.id from old) returning r.id
    )
    select count(*) into removed from gone;
    return removed;
end
$$;
