-- Add the entry of a change that is made in another store; return its ID. Durable when it returns.
create or replace function interlock.journal_record(
    p_namespace text, p_attribution jsonb, p_action text, p_subject_key text, p_before json, p_after json,
    p_from_version bigint, p_to_version bigint, p_clock double precision
) returns bigint
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    return interlock.journal_add(
        p_namespace, interlock.micros(interlock.now_or(p_clock)), p_attribution, p_action, p_subject_key, p_before,
        p_after, p_from_version, p_to_version);
end
$$;
