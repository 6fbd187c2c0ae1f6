-- Committed entries that have no batch, behind an ID, the smallest IDs first. "No batch" is the whole rule: IDs come from
-- a sequence, so an entry with a smaller ID may commit after its successors were sealed. It is part of the next batch.
create or replace function interlock.journal_unsealed(
    p_namespace text, p_limit integer, p_after bigint
) returns setof interlock.journal
language plpgsql stable
as $$
begin
    return query
        select j.* from interlock.journal j
        where j.namespace = p_namespace and j.batch is null and j.id > p_after
        order by j.batch, j.id limit p_limit;
end
$$;
