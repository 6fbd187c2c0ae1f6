-- Write a seal and the batch of its entries. Returns false and changes nothing if the batch is already sealed: a second
-- sealer waits here for the first one's commit. An entry that is gone or has a batch is an error, because the hash covers
-- it.
create or replace function interlock.journal_seal(
    p_namespace text, p_batch bigint, p_previous bytea, p_sealed_at bigint, p_first_id bigint, p_last_id bigint,
    p_newest_at bigint, p_root bytea, p_hash bytea, p_leaves bytea, p_ids bigint[], p_size integer
) returns boolean
language plpgsql volatile
as $$
declare
    sealed integer;
begin
    perform interlock.durably();
    insert into interlock.journal_seal (
        namespace, batch, previous, sealed_at, size, first_id, last_id, newest_at, root, hash, leaves)
    values (
        p_namespace, p_batch, p_previous, p_sealed_at, p_size, p_first_id, p_last_id, p_newest_at, p_root, p_hash, p_leaves)
    on conflict (namespace, batch) do nothing;
    if not found then
        return false;
    end if;
    update interlock.journal j set batch = p_batch
    where j.namespace = p_namespace and j.id = any (p_ids) and j.batch is null;
    get diagnostics sealed = row_count;
    if sealed <> p_size then
        raise exception '% of % entries of journal batch % are gone or have a batch', p_size - sealed, p_size, p_batch
            using errcode = 'data_exception';
    end if;
    return true;
end
$$;
