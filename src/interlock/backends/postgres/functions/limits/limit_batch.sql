-- Run several requests (kind a) and ends (kind f) in one transaction, in the order given. All of their keys are locked
-- first, in order, so that two batches never deadlock. The limits of request i end at p_ends[i] in the arrays.
create or replace function interlock.limit_batch(
    p_namespace text, p_kinds text[], p_owners text[], p_parties text[], p_sessions text[], p_starts boolean[],
    p_ends integer[], p_keys text[], p_mosts integer[], p_pers bigint[], p_turn bigint, p_stale bigint, p_full integer,
    p_clock double precision
) returns table (
    answer text, begins_at bigint, waits_for text, ahead integer, recheck_in double precision, differs text,
    next_owners text[]
)
language plpgsql volatile
as $$
declare
    keys text[];
    first integer := 1;
begin
    select array_agg(k.key order by k.key collate "C") into keys
    from (
        select unnest(p_keys) as key
        union
        select u.key from interlock.limit_use u where u.namespace = p_namespace and u.owner = any (p_owners)
    ) k;
    perform interlock.limit_lock(p_namespace, coalesce(keys, '{}'));
    for i in 1 .. cardinality(p_kinds) loop
        if p_kinds[i] = 'a' then
            select a.answer, a.begins_at, a.waits_for, a.ahead, a.recheck_in, a.differs, null
            into answer, begins_at, waits_for, ahead, recheck_in, differs, next_owners
            from interlock.limit_ask(
                p_namespace, p_owners[i], p_parties[i], p_sessions[i], p_keys[first : p_ends[i]],
                p_mosts[first : p_ends[i]], p_pers[first : p_ends[i]], p_starts[i], p_turn, p_stale, p_full, false,
                p_clock) a;
        else
            select f.answer, null, null, null, null, null, f.next_owners
            into answer, begins_at, waits_for, ahead, recheck_in, differs, next_owners
            from interlock.limit_finish(p_namespace, p_sessions[i], p_owners[i], p_stale, false, p_clock) f;
        end if;
        first := p_ends[i] + 1;
        return next;
    end loop;
end
$$;
