-- Remove logs whose jobs are no longer kept, of those that were begun or last checked before p_before, at most p_max. The
-- others are checked again an hour later. Logs that are being written to are left for the next time.
-- planner: lookups_in_partitions
create or replace function interlock.job_prune_logs(p_namespace text, p_before bigint, p_max integer) returns integer
language plpgsql volatile
as $$
declare
    hour constant bigint := 3600000000;
    looked_at bigint[];
    gone bigint[];
    removed integer;
begin
    looked_at := array(
        select l.id from interlock.job_log l
        where l.namespace = p_namespace and l.checked_at <= p_before
        order by l.checked_at limit p_max for update skip locked);
    if cardinality(looked_at) = 0 then
        return 0;
    end if;
    gone := array(
        select o.id from unnest(looked_at) as o (id)
        where not exists (select from interlock.job j where j.id = o.id)
          and not exists (select from interlock.job_history h where h.id = o.id));
    delete from interlock.job_log_chunk c where c.id = any (gone);
    delete from interlock.job_log l where l.id = any (gone);
    get diagnostics removed = row_count;
    update interlock.job_log l set checked_at = p_before + hour where l.id = any (looked_at) and l.id <> all (gone);
    return removed;
end
$$;
