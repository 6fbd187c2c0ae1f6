-- Record that a session's process was asked to stop, or that it continues after all. Kept apart from the session, which
-- is gone when it matters.
create or replace function interlock.job_mark_leaving(
    p_namespace text, p_session text, p_leaving boolean, p_clock double precision
) returns void
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    insert into interlock.job_session as c (namespace, session, host, pid, program, seen_at, leaving)
    select s.namespace, s.id, s.host, s.pid, s.program, interlock.micros(interlock.now_or(p_clock)), p_leaving
    from interlock.session s where s.namespace = p_namespace and s.id = p_session
    on conflict (namespace, session) do update set leaving = excluded.leaving;
end
$$;
