-- Record that the event loop of a session's process has been blocked for so many seconds, or (null) runs again.
create or replace function interlock.session_note_blocked(
    p_namespace text, p_id text, p_seconds double precision, p_by text, p_clock double precision
) returns void
language sql volatile
as $$
    update interlock.session s
    set blocked_since = interlock.now_or(p_clock) - interlock.seconds(p_seconds), blocked_by = p_by
    where s.namespace = p_namespace and s.id = p_id
$$;
