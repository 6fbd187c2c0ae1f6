-- Add an entry in the transaction of the change that it describes; return its ID. p_attribution is the JSON array
-- [actor, reason, cause_event, cause_job, cause_fence].
create or replace function interlock.journal_add(
    p_namespace text, p_at bigint, p_attribution jsonb, p_action text, p_subject_key text, p_before json, p_after json,
    p_from_version bigint default null, p_to_version bigint default null
) returns bigint
language sql volatile
as $$
    insert into interlock.journal (
        at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after,
        cause_event, cause_job, cause_fence)
    values (
        p_at, p_namespace, p_attribution ->> 0, p_attribution ->> 1, p_action, split_part(p_action, '.', 1), p_subject_key,
        p_from_version, p_to_version, p_before, p_after, (p_attribution ->> 2)::bigint, (p_attribution ->> 3)::bigint,
        (p_attribution ->> 4)::bigint)
    returning id
$$;
