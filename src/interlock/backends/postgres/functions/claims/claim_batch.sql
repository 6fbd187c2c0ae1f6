-- Run several claims (kind c) and finishes (kind s) in one transaction, in the order given, which is that of their
-- keys, so that two batches never deadlock.
create or replace function interlock.claim_batch(
    p_namespace text, p_kinds text[], p_keys text[], p_owners text[], p_sessions text[], p_leases double precision[],
    p_keeps double precision[], p_states text[], p_results text[], p_errors text[], p_retry_ins double precision[],
    p_clock double precision
) returns table (answer text, fence bigint, expires_at double precision, attempt integer, details json)
language plpgsql volatile
as $$
begin
    for i in 1 .. cardinality(p_kinds) loop
        if p_kinds[i] = 'c' then
            select t.answer, t.fence, t.expires_at, t.attempt, t.details
            into answer, fence, expires_at, attempt, details
            from interlock.claim_take(
                p_namespace, p_keys[i], p_owners[i], p_sessions[i], p_leases[i], p_keeps[i], p_clock) t;
        else
            select t.answer, null, null, null, t.details into answer, fence, expires_at, attempt, details
            from interlock.claim_finish(
                p_namespace, p_keys[i], p_owners[i], p_states[i], p_results[i], p_errors[i], p_retry_ins[i], p_keeps[i],
                p_clock) t;
        end if;
        return next;
    end loop;
end
$$;
