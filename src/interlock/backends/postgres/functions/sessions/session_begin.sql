-- Start a session.
create or replace function interlock.session_begin(
    p_namespace text, p_id text, p_host text, p_pid integer, p_program text, p_seconds double precision,
    p_clock double precision
) returns void
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    insert into interlock.session (namespace, id, host, pid, program, begun_at, expires_at)
    values (p_namespace, p_id, p_host, p_pid, p_program, interlock.now_or(p_clock),
            interlock.now_or(p_clock) + interlock.seconds(p_seconds))
    on conflict (namespace, id) do nothing;
end
$$;
