-- Run several requests (kind a) and releases (kind l) in one transaction, in the order given, which is that of their
-- keys, so that two batches never deadlock.
create or replace function interlock.lock_batch(
    p_namespace text, p_kinds text[], p_keys text[], p_owners text[], p_parties text[], p_sessions text[],
    p_ttls double precision[], p_waits double precision[], p_nested boolean[], p_turn double precision,
    p_clock double precision
) returns table (
    answer text, fence bigint, expires_at double precision, recheck_in double precision, details jsonb, why text,
    next_owner text
)
language plpgsql volatile
as $$
declare
    held boolean;
begin
    for i in 1 .. cardinality(p_kinds) loop
        if p_kinds[i] = 'a' then
            select a.answer, a.fence, a.expires_at, a.recheck_in, a.details, null, null
            into answer, fence, expires_at, recheck_in, details, why, next_owner
            from interlock.lock_ask(
                p_namespace, p_keys[i], p_owners[i], p_parties[i], p_sessions[i], p_ttls[i], p_waits[i], p_nested[i],
                p_turn, p_clock) a;
        else
            select l.held, l.why, l.next_owner, l.fence, l.expires_at into held, why, next_owner, fence, expires_at
            from interlock.lock_leave(p_namespace, p_keys[i], p_owners[i], p_sessions[i], false, p_clock) l;
            answer := case when held then 'left' else 'absent' end;
        end if;
        return next;
    end loop;
end
$$;
