-- Remove the entries of sealed batches whose newest entry is older than p_keep microseconds; return how many entries went.
-- The oldest batches go first, so that what is gone is always the beginning of the chain: up to p_limit entries together,
-- but at least one batch. Their seals stay, without leaves.
create or replace function interlock.journal_prune(
    p_namespace text, p_keep bigint, p_limit integer, p_clock double precision
) returns integer
language plpgsql volatile
as $$
declare
    now bigint := interlock.micros(interlock.now_or(p_clock));
    first bigint;
    last bigint;
    removed integer;
begin
    -- One pruner at a time: another one waits here, then finds that this batch is pruned.
    select s.batch into first from interlock.journal_seal s
    where s.namespace = p_namespace and s.pruned_at is null and s.newest_at < now - p_keep
      and s.batch = (
          select min(x.batch) from interlock.journal_seal x where x.namespace = p_namespace and x.pruned_at is null)
    for update;
    if first is null then
        return 0;
    end if;
    with kept as (
        select s.batch, sum(s.size) over (order by s.batch) as total,
               max(s.newest_at) over (order by s.batch) as newest
        from interlock.journal_seal s
        where s.namespace = p_namespace and s.pruned_at is null and s.batch >= first order by s.batch limit 1000
    )
    select max(k.batch) into last from kept k
    where k.newest < now - p_keep and (k.total <= p_limit or k.batch = first);
    delete from interlock.journal j where j.namespace = p_namespace and j.batch between first and last;
    get diagnostics removed = row_count;
    update interlock.journal_seal s set leaves = null, pruned_at = now
    where s.namespace = p_namespace and s.batch between first and last and s.pruned_at is null;
    return removed;
end
$$;
