-- Apply writes as record_write does, and release leases in the same transaction. p_released says for each lease which
-- write it belongs to: it is released only if all changes of that write are made. Leases are in the order of their keys.
-- The arrays from p_lease_writes on repeat those leases that belong to no change, for record_write to check; null if
-- there are none.
-- After the answers of the changes comes a row for each lease: left, absent or kept, the fence of the owner that it was
-- handed to, and as details why, next_owner and expires_at, as lock_leave returns them.
create or replace function interlock.record_write_and_release(
    p_namespace text, p_writes integer[], p_kinds text[], p_ids text[], p_uids text[], p_expected bigint[],
    p_statuses text[], p_bodies text[], p_owners text[], p_fences bigint[], p_actors text[], p_reasons text[],
    p_actions text[], p_subject_kinds text[], p_subject_keys text[], p_befores text[], p_afters text[],
    p_from_versions bigint[], p_to_versions bigint[], p_cause_events bigint[], p_cause_jobs bigint[],
    p_cause_fences bigint[], p_wait boolean, p_clock double precision, p_released integer[], p_lock_keys text[],
    p_lock_owners text[], p_sessions text[], p_lease_writes integer[], p_lease_keys text[], p_lease_owners text[]
) returns table (answer text, version bigint, at bigint, details jsonb)
language plpgsql volatile
as $$
declare
    n integer := 0;
    refused integer[] := '{}';
    l record;
begin
    for answer, version, at, details in
        select w.answer, w.version, w.at, w.details from interlock.record_write(
            p_namespace, p_writes, p_kinds, p_ids, p_uids, p_expected, p_statuses, p_bodies, p_owners, p_fences, p_actors,
            p_reasons, p_actions, p_subject_kinds, p_subject_keys, p_befores, p_afters, p_from_versions, p_to_versions,
            p_cause_events, p_cause_jobs, p_cause_fences, p_wait, p_clock, p_lease_writes, p_lease_keys,
            p_lease_owners) w
    loop
        n := n + 1;
        if answer <> 'written' then
            refused := refused || p_writes[n];
        end if;
        return next;
    end loop;
    at := null;
    for i in 1 .. cardinality(p_released) loop
        answer := 'kept';
        version := null;
        details := null;
        if p_released[i] <> all (refused) then
            select * into l
            from interlock.lock_leave(p_namespace, p_lock_keys[i], p_lock_owners[i], p_sessions[i], false, p_clock);
            answer := case when l.held then 'left' else 'absent' end;
            version := l.fence;
            details := jsonb_build_object('why', l.why, 'next_owner', l.next_owner, 'expires_at', l.expires_at);
        end if;
        return next;
    end loop;
end
$$;
