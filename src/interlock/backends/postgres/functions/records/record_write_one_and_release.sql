-- Replace one record as record_write_one does, and release its lease in the same transaction if the change is made.
-- released is null if it is not; the columns after it are those of lock_leave.
-- planner: keys
create or replace function interlock.record_write_one_and_release(
    p_namespace text, p_kind text, p_id text, p_uid text, p_expected bigint, p_status text, p_body text, p_owner text,
    p_fence bigint, p_actor text, p_reason text, p_action text, p_subject_kind text, p_subject_key text, p_before text,
    p_after text, p_from_version bigint, p_to_version bigint, p_cause_event bigint, p_cause_job bigint,
    p_cause_fence bigint, p_clock double precision, p_lock_key text, p_session text,
    out answer text, out version bigint, out at bigint, out details jsonb, out released boolean, out why text,
    out next_owner text, out fence bigint, out expires_at double precision
)
language plpgsql volatile
as $$
begin
    select w.answer, w.version, w.at, w.details into answer, version, at, details
    from interlock.record_write_one(
        p_namespace, p_kind, p_id, p_uid, p_expected, p_status, p_body, p_owner, p_fence, p_actor, p_reason, p_action,
        p_subject_kind, p_subject_key, p_before, p_after, p_from_version, p_to_version, p_cause_event, p_cause_job,
        p_cause_fence, p_clock) w;
    if answer = 'written' then
        select l.held, l.why, l.next_owner, l.fence, l.expires_at into released, why, next_owner, fence, expires_at
        from interlock.lock_leave(p_namespace, p_lock_key, p_owner, p_session, false, p_clock) l;
    end if;
end
$$;
