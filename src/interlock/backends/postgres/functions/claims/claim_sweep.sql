-- Remove a bounded number of claims that are no longer kept.
create or replace function interlock.claim_sweep(p_namespace text, p_clock double precision) returns integer
language plpgsql volatile
set lock_timeout = '1s'
as $$
declare
    removed integer;
    now_is timestamptz := interlock.now_or(p_clock);
begin
    with over as (
        select c.key from interlock.claim c
        where c.namespace = p_namespace and c.kept_until <= now_is
        order by c.kept_until limit 1000 for update skip locked
    )
    delete from interlock.claim c using over where c.namespace = p_namespace and c.key = over.key;
    get diagnostics removed = row_count;
    return removed;
end
$$;
