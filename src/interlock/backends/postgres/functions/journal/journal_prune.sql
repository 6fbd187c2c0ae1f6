-- Remove up to p_limit entries that are older than p_keep microseconds; return how many.
create or replace function interlock.journal_prune(
    p_namespace text, p_keep bigint, p_limit integer, p_clock double precision
) returns integer
language plpgsql volatile
as $$
declare
    removed integer;
begin
    delete from interlock.journal j
    where j.id in (
        select x.id from interlock.journal x
        where x.namespace = p_namespace and x.at < interlock.micros(interlock.now_or(p_clock)) - p_keep
        order by x.at, x.id limit p_limit for update skip locked);
    get diagnostics removed = row_count;
    return removed;
end
$$;
