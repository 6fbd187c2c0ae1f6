-- Ask for the locks of records, in the order of their keys, and read the records whose locks are granted, in the same
-- transaction. The share locks of the read last until the grants are committed, so a write that could not see a grant
-- comes before the read or is refused. A record that another transaction has locked is left out: its holder reads it
-- afterwards, with record_read_current. docs/decisions/0064 says why this is enough.
-- planner: lookups
create or replace function interlock.record_open(
    p_namespace text, p_keys text[], p_owners text[], p_callers text[], p_sessions text[], p_ttls double precision[],
    p_waits double precision[], p_nested boolean[], p_kinds text[], p_ids text[], p_turn double precision,
    p_clock double precision
) returns table (
    answer text, fence bigint, expires_at double precision, recheck_in double precision, details jsonb, kind text, id text,
    uid text, version bigint, status text, body text, record_fence bigint, created_at bigint, updated_at bigint
)
language plpgsql volatile
as $$
declare
    answers text[] := '{}';
    fences bigint[] := '{}';
    expiries double precision[] := '{}';
    rechecks double precision[] := '{}';
    holders jsonb[] := '{}';
begin
    for i in 1 .. cardinality(p_keys) loop
        select a.answer, a.fence, a.expires_at, a.recheck_in, a.details
        into answer, fence, expires_at, recheck_in, details
        from interlock.lock_ask(
            p_namespace, p_keys[i], p_owners[i], p_callers[i], p_sessions[i], p_ttls[i], p_waits[i], p_nested[i], p_turn,
            p_clock) a;
        answers[i] := answer;
        fences[i] := fence;
        expiries[i] := expires_at;
        rechecks[i] := recheck_in;
        holders[i] := details;
    end loop;
    -- After all requests: a lock is waited for, a record is not.
    return query
    with found as materialized (
        select r.* from unnest(p_kinds, p_ids, answers) as u (kind, id, answer)
        join interlock.record r on r.namespace = p_namespace and r.kind = u.kind and r.id = u.id
        where u.answer = 'granted' for share of r skip locked
    )
    select u.answer, u.fence, u.expires_at, u.recheck_in, u.details, f.kind, f.id, f.uid, f.version, f.status, f.body,
           f.fence, f.created_at, f.updated_at
    from unnest(answers, fences, expiries, rechecks, holders, p_kinds, p_ids) with ordinality as u (
        answer, fence, expires_at, recheck_in, details, kind, id, n)
    left join found f on f.kind = u.kind and f.id = u.id
    order by u.n;
end
$$;
